"""`regard tag` and `evaluate` on a small trained tagger."""

import json
from pathlib import Path

import pytest

from recipes.test_tag_job import folder, row, tagger_recipe
from regard.recipes import runner
from test_cli import Cli, assert_one_line, cli

__all__ = ["cli", "folder"]  # the fixtures


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return runner.train(tagger_recipe(folder, None), folder / "run")[0].folder


def test_each_line_gets_its_tags_and_empty_lines_stay_empty(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the dog sees the cat .\n\nthe  house\n", "utf-8")
    called = cli("tag", run, tmp_path / "lines.txt")
    assert called.code == 0, called.err
    assert called.out.split("\n") == [
        "the/DET dog/NOUN sees/VERB the/DET cat/NOUN ./PUNCT",
        "",
        "the/DET house/NOUN",
        "",
    ]


def test_json_says_words_tags_and_chances(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\nthe dog\n", "utf-8")
    empty, known = map(json.loads, cli("tag", run, tmp_path / "lines.txt", "--json").out.splitlines())
    assert empty == {"line": 1, "words": [], "tags": [], "probabilities": []}
    assert (known["line"], known["words"], known["tags"]) == (2, ["the", "dog"], ["DET", "NOUN"])
    assert len(known["probabilities"]) == 2


def test_a_treebank_needs_no_tags_to_be_tagged(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "words.conllu").write_text(row(1, ("the", "_")) + row(2, ("dog", "_")), "utf-8")
    assert cli("tag", run, tmp_path / "words.conllu").out == "the/DET dog/NOUN\n"


def test_an_endless_line_is_said_and_left_empty(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("x" * 200_000 + "\nthe\n", "utf-8")
    called = cli("tag", run, tmp_path / "lines.txt")
    assert called.out == "\nthe/DET\n"
    assert "line 1 of the input is too long" in called.err


def test_evaluate_tells_the_accuracy(cli: Cli, run: Path) -> None:
    assert "accuracy" in cli("evaluate", run).out
    found = json.loads(cli("evaluate", run, "--json", "--split", "valid").out)
    assert (found["split"], found["count"]) == ("valid", 360)


def test_a_missing_file_and_another_verb_are_one_line(cli: Cli, run: Path, tmp_path: Path) -> None:
    for called, told in (
        (cli("tag", run, tmp_path / "none.txt"), "none.txt: no such file"),
        (cli("translate", run, __file__), "holds a tagger, which has no 'translate'"),
    ):
        assert called.code == 2
        assert_one_line(called, told)
