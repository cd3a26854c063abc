"""`regard classify`, `evaluate` and `look` on a small trained classifier."""

import json
import sys
from pathlib import Path

import pytest

from regard.recipes import from_values, runner
from tasks.test_classify import values, write_texts
from test_cli import Cli, assert_one_line, cli

__all__ = ["cli"]  # the fixture


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for seed, (split, count) in enumerate({"train": 120, "valid": 20, "test": 20}.items()):
        write_texts(folder / f"{split}.jsonl", count, seed)
    trained, _ = runner.train(from_values(values(folder), "test"), folder / "run")
    return trained.folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("The film was lovely. We saw it!\n\nit was a dull story\n...\n", "utf-8")
    return path


def test_each_line_gets_its_label_and_empty_lines_stay_empty(cli: Cli, run: Path, texts: Path) -> None:
    called = cli("classify", run, texts)
    assert called.code == 0, called.err
    lines = called.out.split("\n")[:-1]
    assert len(lines) == 4
    assert lines[0].startswith("good\t0.")
    assert lines[1] == ""
    assert lines[2].startswith("bad\t0.")
    assert "\t" in lines[3]


def test_json_says_everything_and_why(cli: Cli, run: Path, texts: Path) -> None:
    first, second, *_ = map(json.loads, cli("classify", run, texts, "--json", "--why").out.splitlines())
    assert (first["line"], first["label"]) == (1, "good")
    assert sum(first["probabilities"].values()) == pytest.approx(1.0)
    assert [sentence["text"] for sentence in first["sentences"]] == ["The film was lovely.", "We saw it!"]
    assert sum(word["weight"] for word in first["sentences"][0]["words"]) == pytest.approx(1.0, abs=1e-4)
    assert second == {"line": 2, "label": None, "probabilities": {}}


def test_why_shows_the_sentences_below_the_label(cli: Cli, run: Path, texts: Path) -> None:
    out = cli("classify", run, texts, "--why").out
    assert "We saw it" in out.replace("[", "").replace("]", "")
    assert "\x1b" not in out  # not a terminal


def test_tables_and_standard_input_are_read_too(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "lovely film"}\n{"text": ""}\n')
    assert cli("classify", run, tmp_path / "a.jsonl").out.split("\n")[1:] == ["", ""]
    (tmp_path / "a.tsv").write_text("review\tid\nlovely film\t1\n")
    assert cli("classify", run, tmp_path / "a.tsv", "--text-column", "review").out.startswith("good\t")
    with open(tmp_path / "a.jsonl") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert cli("classify", run, tmp_path / "a.jsonl").code == 0


def test_a_page_shows_all_texts_and_a_picture_one(cli: Cli, run: Path, texts: Path, tmp_path: Path) -> None:
    called = cli("classify", run, texts, "-o", tmp_path / "page.html")
    assert called.code == 0, called.err
    assert (tmp_path / "page.html").read_text("utf-8").count("<article>") == 3
    called = cli("classify", run, texts, "-o", tmp_path / "a.svg")
    assert called.code == 2
    assert_one_line(called, "a picture shows one text")
    one = tmp_path / "one.txt"
    one.write_text("a lovely film\n")
    assert cli("classify", run, one, "-o", tmp_path / "a.svg").code == 0
    assert "lovely" in (tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.parametrize("name", ["page.html", "map.svg", "map.png"])
def test_look_draws_a_document(cli: Cli, run: Path, tmp_path: Path, name: str) -> None:
    called = cli("look", run, "The film was lovely. We saw it!", "-o", tmp_path / name)
    assert called.code == 0, called.err
    assert called.out.startswith("good (")
    assert (tmp_path / name).stat().st_size > 1000


def test_look_without_a_file_shows_it_here(cli: Cli, run: Path) -> None:
    out = cli("look", run, "The film was lovely. We saw it!").out
    assert out.startswith("good (")
    assert "0." in out


def test_evaluate_tells_accuracy_and_confusion(cli: Cli, run: Path) -> None:
    told = cli("evaluate", run).out
    assert told.startswith("accuracy ")
    assert "macro-F1" in told
    scores = json.loads(cli("evaluate", run, "--json", "--split", "valid").out)
    assert scores["count"] == 20
    assert scores["split"] == "valid"
    assert scores["confusion"].keys() == {"bad", "good"}


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["nowhere.txt"], 2, "nowhere.txt: no such file"),
        (["broken.jsonl"], 1, "broken.jsonl, line 1: not JSON"),
        (["texts.txt", "-o", "a.pdf"], 2, "must end in .html, .svg or .png"),
        (["blank.txt", "-o", "a.html"], 2, "no text with a word"),
    ],
)
def test_wrong_use_is_one_line(
    cli: Cli, run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, part: str
) -> None:
    monkeypatch.chdir(texts.parent)
    Path("broken.jsonl").write_text("{")
    Path("blank.txt").write_text("\n \n")
    called = cli("classify", run, *arguments)
    assert called.code == code
    assert_one_line(called, part)
    assert not Path("a.html").exists()


def test_an_overlong_line_is_said_and_left_empty(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.labelled.LONGEST_TEXT", 50)
    path = tmp_path / "long.txt"
    path.write_text("lovely film\n" + "x" * 1000 + "\nlovely\n")
    called = cli("classify", run, path)
    assert [bool(line) for line in called.out.split("\n")[:-1]] == [True, False, True]
    assert_one_line(called, "line 2 of the input is too long")


def test_a_translator_does_not_classify_nor_a_classifier_translate(cli: Cli, run: Path, texts: Path) -> None:
    called = cli("translate", run, texts)
    assert called.code == 2
    assert_one_line(called, "holds a classifier, which has no 'translate'")
