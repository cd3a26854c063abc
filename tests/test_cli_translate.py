"""The command line of translation: several runs in one curve, unknown words, and runs without attention."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jaxtyping import config as shape_checks

from regard.cli import main
from regard.cli.evaluate import short_names
from regard.recipes import load_recipe, runner

LINES = ["the red car is in front of the house .", "", "she reads a Book , zyzzyva ."]
NOUNS = ["car", "house", "book", "dog", "cat", "tree"]
PAIRS = [(f"the {noun} is near the {other} .", f"x {noun}o es y x {other}o .") for noun in NOUNS for other in NOUNS]
TRAINING = dict(steps=12, batch_tokens=256, validate_every=12, log_every=12, warmup=2, learning_rate=0.01, device="cpu")
MODELS = {
    "attends": dict(
        preset="transformer:tiny", size=8, hidden_size=8, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0
    ),
    "silent": dict(preset="rnn:small", embedding_size=8, size=8, readout_size=8, dropout=0.0),
}


@dataclass(frozen=True)
class Called:
    code: int
    out: str
    err: str


Cli = Callable[..., Called]


@pytest.fixture(scope="module", autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`regard ARGUMENTS` inside this process; anything but an orderly exit is an error of the test."""

    def call(*arguments: object) -> Called:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Called(int(left.value.code or 0), out, err)

    return call


def assert_wrong_use(called: Called, *parts: str) -> None:
    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("regard: ")
    assert called.err.count("\n") == 1, called.err
    for part in parts:
        assert part in called.err


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny run of each model, with a vocabulary so small that most words are unknown; nobody may change them."""
    folder = tmp_path_factory.mktemp("runs")
    table = folder / "pairs.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), "utf-8")
    data = dict(tokenizer="word", vocabulary=10, bleu_tokenize="none", join=3)
    data.update({split: [str(table)] for split in ("train", "valid", "test")})
    for name, model in MODELS.items():
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(dict(task="translate", data=data, model=model, training=TRAINING)), "utf-8")
        runner.train(load_recipe(str(path)), folder / name)
    return {name: folder / name for name in MODELS}


@pytest.fixture(scope="module")
def evaluations() -> dict[str, Any]:
    return {}


@pytest.fixture(autouse=True)
def each_run_is_scored_once(evaluations: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question has the same answer; asked again, it costs nothing."""
    evaluate = runner.evaluate

    def remembered(*run: object, **options: Any) -> Any:
        asked = str((run, options))
        if asked not in evaluations:
            evaluations[asked] = evaluate(*run, **options)  # type: ignore[arg-type]
        return evaluations[asked]

    monkeypatch.setattr(runner, "evaluate", remembered)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


# The curve


def test_one_run_is_drawn_and_its_json_stays_one_object(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    plain = cli("evaluate", runs["attends"], "--beam", 1, "--json")
    drawn = cli("evaluate", runs["attends"], "--beam", 1, "--json", "--curve", tmp_path / "curve.svg")
    assert (drawn.code, drawn.err) == (0, "")
    assert drawn.out == plain.out
    record = json.loads(drawn.out)
    for bucket in record["bleu_by_length"]:
        assert bucket["interval"][0] <= bucket["bleu"] <= bucket["interval"][1]
    picture = (tmp_path / "curve.svg").read_text("utf-8")
    for part in ("attends", "BLEU", *(bucket["label"] for bucket in record["bleu_by_length"])):
        assert part in picture


def test_several_runs_share_one_curve(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    both = [runs["attends"], runs["silent"]]
    records = json.loads(cli("evaluate", *both, "--beam", 1, "--json", "--curve", tmp_path / "curve.svg").out)
    assert [record["run"] for record in records] == list(map(str, both))
    for run, record in zip(both, records, strict=True):
        alone = json.loads(cli("evaluate", run, "--beam", 1, "--json").out)
        assert {"run": str(run), **alone} == record
    picture = (tmp_path / "curve.svg").read_text("utf-8")
    assert "attends" in picture
    assert "silent" in picture


def test_people_read_which_run_scored_what(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    called = cli("evaluate", runs["attends"], runs["silent"], "--beam", 1, "--curve", path)
    assert (called.code, called.err) == (0, "")
    assert called.out.index(str(runs["attends"])) < called.out.index(str(runs["silent"]))
    assert called.out.count("BLEU by source words") == 2
    assert called.out.endswith(f"wrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_legend_says_folders_or_paths_where_folders_are_alike() -> None:
    assert short_names(["runs/a", "runs/b/"]) == ["a", "b"]
    assert short_names(["one/run", "two/run"]) == ["one/run", "two/run"]
    assert short_names(["."]) == [Path.cwd().name]


def test_what_cannot_be_drawn_is_refused_before_anything_is_translated(
    cli: Cli, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing should be evaluated")

    monkeypatch.setattr(runner, "evaluate", never)
    monkeypatch.chdir(tmp_path)
    assert_wrong_use(cli("evaluate", runs["attends"], "--curve", "x.gif"), "x.gif", ".svg or .png")
    assert_wrong_use(cli("evaluate", runs["attends"], "nowhere", "--curve", "x.svg"), "nowhere", "no such run folder")
    assert list(tmp_path.iterdir()) == []


def test_only_translations_have_a_length_curve(
    cli: Cli, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(runner, "recipe_of", lambda run: SimpleNamespace(task="classify"))
    assert_wrong_use(cli("evaluate", runs["attends"], "--curve", "x.svg"), "'classify'", str(runs["attends"]))


# Unknown words


def test_unknown_words_are_replaced_in_text_json_and_nbest(cli: Cli, runs: dict[str, Path], text: Path) -> None:
    plain = cli("translate", runs["attends"], text)
    assert "<unk>" in plain.out
    called = cli("translate", runs["attends"], text, "--replace-unknowns")
    assert (called.code, called.err) == (0, "")
    assert "<unk>" not in called.out
    said = called.out.splitlines()
    assert len(said) == len(LINES)
    for source, before, after in zip(LINES, plain.out.splitlines(), said, strict=True):
        for old, new in zip(before.split(), after.split(), strict=True):
            assert new in source.split() if old == "<unk>" else new == old
    as_json = cli("translate", runs["attends"], text, "--replace-unknowns", "--json").out.splitlines()
    assert [json.loads(line)["text"] for line in as_json] == said
    ranked = cli("translate", runs["attends"], text, "--replace-unknowns", "--nbest", 3)
    assert "<unk>" not in ranked.out
    assert len(ranked.out.splitlines()) == 3 * 2 + 1


def test_a_dictionary_says_what_to_put_there(cli: Cli, runs: dict[str, Path], text: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.tsv"
    entries = sorted({word for line in LINES for word in line.split()})
    words.write_text("".join(f"{word}\tX{word}\n" for word in entries) + "in front of\tdelante de\n", "utf-8")
    copied = cli("translate", runs["attends"], text, "--replace-unknowns").out.split()
    plain = cli("translate", runs["attends"], text).out.split()
    called = cli("translate", runs["attends"], text, "--replace-unknowns", "--dictionary", words)
    assert called.code == 0
    assert called.err == f"regard: {words}: entries left out: 1 of several words\n"
    expected = [f"X{new}" if old == "<unk>" else new for old, new in zip(plain, copied, strict=True)]
    assert called.out.split() == expected


def test_a_dictionary_alone_or_missing_is_wrong_use(cli: Cli, runs: dict[str, Path], text: Path) -> None:
    assert_wrong_use(cli("translate", runs["attends"], text, "--dictionary", "x.tsv"), "x.tsv", "--replace-unknowns")
    called = cli("translate", runs["attends"], text, "--replace-unknowns", "--dictionary", "x.tsv")
    assert_wrong_use(called, "x.tsv", "no such file")


def test_an_evaluation_may_replace_unknown_words_too(cli: Cli, runs: dict[str, Path]) -> None:
    options = ("evaluate", runs["attends"], "--beam", 1, "--json")
    plain, replaced = (json.loads(cli(*options, *more).out) for more in ((), ("--replace-unknowns",)))
    assert replaced["chrf"] != plain["chrf"]
    assert replaced["nll"] == plain["nll"]


# Processes


def test_workers_say_what_one_process_says(cli: Cli, runs: dict[str, Path], text: Path) -> None:
    asked = ("translate", runs["attends"], text, "--nbest", 2, "--alignments")
    alone, together = cli(*asked), cli(*asked, "--workers", 2)
    assert (together.code, together.err) == (0, "")
    assert together.out == alone.out
    assert_wrong_use(cli("translate", runs["attends"], text, "--workers", 0), "0 workers")


# A run without attention


def test_a_run_without_attention_translates(cli: Cli, runs: dict[str, Path], text: Path) -> None:
    called = cli("translate", runs["silent"], text)
    assert (called.code, called.err) == (0, "")
    assert len(called.out.splitlines()) == len(LINES)


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "RUN", "TEXT", "--alignments"],
        ["translate", "RUN", "TEXT", "--replace-unknowns"],
        ["evaluate", "RUN", "--replace-unknowns"],
        ["look", "RUN", "a car"],
        ["look", "RUN", "a car", "-o", "page.html"],
    ],
    ids=" ".join,
)
def test_whatever_needs_attention_is_one_line_with_code_2(
    cli: Cli, runs: dict[str, Path], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"RUN": str(runs["silent"]), "TEXT": str(text)}
    called = cli(*(named.get(word, word) for word in arguments))
    assert_wrong_use(called, "EncoderDecoder has no attention to read alignments from")
    assert [path.name for path in tmp_path.iterdir()] == [text.name]
