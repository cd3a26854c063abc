"""The command line: its verbs, and one clear line for every wrong use."""

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regard.cli import main
from regard.data.corpus import corpus
from regard.recipes import load_recipe, runner

VERBS = ["recipes", "train", "evaluate", "translate", "look", "demo"]
SMALL = [
    "model.size=16",
    "model.hidden_size=32",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=2",
    "training.steps=30",
    "training.batch_tokens=256",
    "training.validate_every=15",
    "training.log_every=5",
    "training.warmup=2",
    "training.device=cpu",
]
LINES = ["the red car is in front of the house .", "", "she reads a book .", "   ", "zyzzyva ?"]


@dataclass(frozen=True)
class Called:
    code: int
    out: str
    err: str


Cli = Callable[..., Called]


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


def process(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """`python -m regard ARGUMENTS` in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, **options)


def assert_one_line(called: Called, *parts: str) -> None:
    assert called.err.startswith("regard: ")
    assert called.err.endswith("\n")
    assert called.err.count("\n") == 1, called.err
    assert "Traceback" not in called.err
    for part in parts:
        assert part in called.err


def assert_wrong_use(called: Called, code: int, *parts: str) -> None:
    assert_one_line(called, *parts)
    assert (called.code, called.out) == (code, "")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tiny run on the bundled corpus; nobody may change it."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    runner.train(load_recipe("demo-translate", [*SMALL, "data.options={count: 30}"]), folder)
    return folder


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """The same run, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy", symlinks=True))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Overrides of a recipe on four small files: everything that `train` needs, and quick."""
    folder = tmp_path / "text"
    folder.mkdir()
    for split in ("train", "valid"):
        (folder / f"{split}.en").write_text("one two three\ntwo three\nthree one two\n" * 4, "utf-8")
        (folder / f"{split}.es").write_text("uno dos tres\ndos tres\ntres uno dos\n" * 4, "utf-8")
    named = [f"data.{split}=[{folder}/{split}.en, {folder}/{split}.es]" for split in ("train", "valid")]
    return [*SMALL, "data.name=null", *named]


# Help and lists


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; sys.argv = ['regard', '--help']\n"
        "from regard.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as left:\n    assert not left.code\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'tokenizers', 'sacrebleu'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
    assert (answer.returncode, answer.stderr) == (0, "")
    for verb in VERBS:
        assert re.search(rf"^ +{verb} ", answer.stdout, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(cli: Cli, verb: str) -> None:
    called = cli(verb, "--help")
    assert (called.code, called.err) == (0, "")
    assert "Usage: " in called.out
    assert verb in called.out


def test_nothing_asked_is_answered_with_the_help(cli: Cli) -> None:
    called = cli()
    assert "Traceback" not in called.err
    assert "Usage: " in called.out + called.err
    assert not called.err.startswith("regard: ")
    assert all(verb in called.out + called.err for verb in VERBS)


def test_the_version_is_printed(cli: Cli) -> None:
    from regard import __version__

    assert cli("--version") == Called(0, f"regard {__version__}\n", "")


def test_recipes_lists_the_named_runs(cli: Cli) -> None:
    called = cli("recipes")
    assert (called.code, called.err) == (0, "")
    assert {"demo-translate", "multi30k-transformer"} <= set(called.out.splitlines())


def test_recipes_as_json_parse_and_hold_every_section(cli: Cli) -> None:
    listed = json.loads(cli("recipes", "--json").out)
    assert {"demo-translate", "multi30k-transformer"} <= listed.keys()
    for recipe in listed.values():
        assert {"data", "model", "training", "decoding"} <= recipe.keys()
        assert recipe["training"]["steps"] > 0


# A trained run


def test_translate_keeps_number_and_order_of_lines(cli: Cli, trained: Path, text: Path) -> None:
    together = cli("translate", trained, text)
    assert (together.code, together.err) == (0, "")
    said = together.out.split("\n")
    assert said.pop() == ""
    assert len(said) == len(LINES)
    assert said[1] == said[3] == ""
    for number in (0, 2, 4):
        text.write_text(LINES[number] + "\n", "utf-8")
        assert cli("translate", trained, text).out == said[number] + "\n"


def test_python_dash_m_translates_standard_input_like_a_file(cli: Cli, trained: Path, text: Path) -> None:
    answer = process("translate", trained, input=text.read_text("utf-8"))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == cli("translate", trained, text).out


def test_translate_of_nothing_says_nothing(cli: Cli, trained: Path, text: Path) -> None:
    text.write_text("")
    assert cli("translate", trained, text) == Called(0, "", "")


def test_the_last_line_needs_no_end(cli: Cli, trained: Path, text: Path) -> None:
    whole = cli("translate", trained, text).out
    text.write_text("\n".join(LINES), "utf-8")
    assert cli("translate", trained, text).out == whole


def test_nbest_gives_ranked_hypotheses_with_their_scores(cli: Cli, trained: Path, text: Path) -> None:
    called = cli("translate", trained, text, "--nbest", 3, "--beam", 4)
    assert (called.code, called.err) == (0, "")
    found: dict[int, list[tuple[str, float]]] = {}
    for line in called.out.splitlines():
        number, said, score = line.split(" ||| ")
        found.setdefault(int(number), []).append((said, float(score)))
    assert sorted(found) == list(range(len(LINES)))
    for number, hypotheses in found.items():
        if LINES[number].strip():
            assert len(hypotheses) == 3
            scores = [score for _, score in hypotheses]
            assert scores == sorted(scores, reverse=True)
    best = cli("translate", trained, text, "--beam", 4).out.splitlines()
    assert [found[number][0][0] for number in range(len(LINES))] == best


def test_alignments_link_words_that_exist(cli: Cli, trained: Path, text: Path) -> None:
    plain = cli("translate", trained, text).out.splitlines()
    called = cli("translate", trained, text, "--alignments")
    assert (called.code, called.err) == (0, "")
    linked = 0
    for source, said, line in zip(LINES, plain, called.out.splitlines(), strict=True):
        target, links = line.split("\t")
        assert target == said
        for link in links.split():
            left, right = map(int, link.split("-"))
            assert 0 <= left < len(source.split())
            assert 0 <= right < len(said.split())
            linked += 1
    assert linked > 0


def test_translations_as_json_parse_line_by_line(cli: Cli, trained: Path, text: Path) -> None:
    records = [json.loads(line) for line in cli("translate", trained, text, "--json", "--alignments").out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["source"] for record in records] == LINES
    assert [record["text"] for record in records] == cli("translate", trained, text).out.splitlines()
    assert all(isinstance(record["score"], float) and "alignment" in record for record in records)


def test_sampling_draws_the_same_for_the_same_seed(cli: Cli, trained: Path, text: Path) -> None:
    options = ("translate", trained, text, "--sample", "--max-new-tokens", 8)
    assert cli(*options, "--seed", 1).out == cli(*options, "--seed", 1).out
    assert cli(*options, "--seed", 1).out != cli(*options, "--seed", 2).out


def test_a_checkpoint_folder_serves_like_its_run(cli: Cli, trained: Path, text: Path) -> None:
    best = (trained / "checkpoints" / "best").resolve()
    assert cli("translate", best, text).out == cli("translate", trained, text).out


def test_evaluate_says_what_eight_bits_change(cli: Cli, trained: Path) -> None:
    called = cli("evaluate", trained, "--beam", 1, "--int8")
    assert called.code == 0
    assert re.search(r"^in 8 bits:$", called.out, re.MULTILINE)
    assert re.search(r"^  bleu \S+ -> \S+ \([+-]\S+\)$", called.out, re.MULTILINE)
    assert "bleu" in json.loads(cli("evaluate", trained, "--beam", 1, "--int8", "--json").out)["int8"]


def test_every_run_keeps_its_name_beside_what_eight_bits_change(cli: Cli, trained: Path, copy: Path) -> None:
    runs = [str(trained), str(copy)]
    lines = cli("evaluate", *runs, "--beam", 1, "--int8").out.splitlines()
    blocks = [number for number, line in enumerate(lines) if line == "in 8 bits:"]
    named = [max(place for place in map(lines.index, runs) if place < block) for block in blocks]
    assert [lines[place] for place in named] == runs


def test_the_validation_split_is_read_only_where_a_head_is_chosen_on_it(
    cli: Cli, files: list[str], tmp_path: Path
) -> None:
    """Text files have no gold links, so their test split is scored without the validation split."""
    assert cli("train", "demo-translate", *files, "--out", tmp_path / "run").code == 0
    for name in tmp_path.joinpath("text").glob("valid*"):
        name.unlink()
    called = cli("evaluate", tmp_path / "run", "--split", "train", "--beam", 1)
    assert (called.code, called.err) == (0, "")
    assert_wrong_use(cli("evaluate", tmp_path / "run", "--split", "valid"), 2, "valid")


def test_evaluate_prints_bleu_with_its_signature(cli: Cli, trained: Path) -> None:
    called = cli("evaluate", trained, "--beam", 1)
    assert called.code == 0
    assert re.search(r"^BLEU \d+\.\d\d  \[.*\].*nrefs:1.*tok:none.*version:", called.out, re.MULTILINE)
    assert re.search(r"^chrF \d+\.\d\d .*version:", called.out, re.MULTILINE)
    assert "perplexity" in called.out
    assert "alignment error rate" in called.out
    assert called.err == ""


def test_an_evaluation_as_json_parses(cli: Cli, trained: Path) -> None:
    called = cli("evaluate", trained, "--split", "valid", "--beam", 1, "--json")
    record = json.loads(called.out)
    assert record["split"] == "valid"
    assert 0 <= record["bleu"] <= 100
    assert "tok:none" in record["bleu_signature"]
    assert record["perplexity"] > 1


def test_look_prints_a_map_on_the_terminal(cli: Cli, trained: Path) -> None:
    pair = corpus("train", count=30)[0]
    called = cli("look", trained, pair.source, "--target", pair.target)
    assert (called.code, called.err) == (0, "")
    said, _, drawn = called.out.partition("\n")
    assert said == pair.target
    assert "cross-attention, layer 2" in drawn
    rows = [line.split("│")[0].strip() for line in drawn.splitlines() if "│" in line]
    assert rows == [*pair.target.split(), "</s>"]
    assert "\x1b" not in called.out  # no colours where nobody sees them


@pytest.mark.parametrize(
    ("name", "begins"), [("page.html", b"<!doctype html>"), ("map.svg", b"<?xml"), ("map.png", b"\x89PNG")]
)
def test_look_writes_pages_and_pictures(cli: Cli, trained: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    path = tmp_path / name
    called = cli("look", trained, "the red car is here .", "-o", path)
    assert (called.code, called.err) == (0, "")
    assert str(path) in called.out
    assert path.read_bytes()[: len(begins)].lower() == begins.lower()


def test_look_shows_chosen_layers_and_heads(cli: Cli, trained: Path, tmp_path: Path) -> None:
    called = cli("look", trained, "the red car", "--target", "el coche", "--layers", "0", "--heads", "1")
    assert "cross-attention, layer 1" in called.out
    path = tmp_path / "heads.svg"
    assert cli("look", trained, "the red car", "--layers", "-1", "--heads", "0,1", "-o", path).code == 0
    assert path.stat().st_size > 0


# Wrong use: one line, the right code, nothing half-written


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train"], ["which recipe"]),
        (["train", "demo-translat"], ["demo-translat", "did you mean 'demo-translate'?"]),
        (["train", "missing.yaml"], ["missing.yaml", "no such recipe file"]),
        (["train", "demo-translate", "training.stps=3"], ["stps", "did you mean 'steps'?"]),
        (["train", "demo-translate", "trainig.steps=3"], ["trainig", "did you mean 'training'?"]),
        (["train", "demo-translate", "decoding.beams=3"], ["beams"]),
        (["train", "demo-translate", "data.vocabulry=3"], ["vocabulry", "did you mean 'vocabulary'?"]),
        (["train", "demo-translate", "model.widht=3"], ["widht"]),
        (["train", "demo-translate", "training.steps=many"], ["training.steps", "'many'", "a whole number"]),
        (["train", "demo-translate", "training.steps=1.5"], ["training.steps", "a whole number"]),
        (["train", "demo-translate", "model.dropout=much"], ["model.dropout", "a number"]),
        (["train", "demo-translate", "training.steps"], ["section.key=value"]),
        (["train", "demo-translate", "training.steps=[1"], ["not YAML"]),
        (["train", "demo-translate", "task=sing"], ["sing", "translate"]),
        (["train", "demo-translate", "model.preset=transformer:huge"], ["transformer:huge", "transformer:base"]),
        (["train", "demo-translate", "model.preset=cnn:base"], ["rnn", "transformer"]),
        (["train", "demo-translate", "data.name=wmt"], ["wmt", "multi30k"]),
        (["train", "demo-translate", "data.options={cuont: 3}"], ["cuont", "count"]),
        (["train", "demo-translate", "data.name=null"], ["train split", "data.train"]),
        (["train", "demo-translate", "--reseme"], ["--reseme"]),
        (["train", "--resume", "--out", "nothing"], ["nothing", "no such run folder"]),
        (["evaluate"], ["RUN"]),
        (["evaluate", "nothing"], ["nothing", "no such run folder"]),
        (["translate", "nothing", "lines.txt"], ["nothing", "no such run or checkpoint folder"]),
        (["look", "nothing", "text"], ["nothing"]),
        (["dance"], ["dance"]),
        (["--verbos"], ["--verbos"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and len(value[0]) < 10 else "",
)
def test_wrong_use_is_one_line_with_code_2_and_writes_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    (tmp_path / "lines.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    assert_wrong_use(cli(*arguments), 2, *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


IMPOSSIBLE = [
    "training.validate_every=0",
    "training.log_every=0",
    "training.accumulate=0",
    "training.betas=[0.9]",
    "training.schedule=noam",
    "training.optimizer=magic",
    "training.device=nowhere",
    "model.dropout=1.5",
    "model.heads=3",
    "model.positions=rotary",
    "data.tokenizer=morse",
    "data.vocabulary=2",
]


@pytest.mark.parametrize("override", IMPOSSIBLE)
def test_an_impossible_value_is_one_line(cli: Cli, files: list[str], tmp_path: Path, override: str) -> None:
    called = cli("train", "demo-translate", *files, override, "--out", tmp_path / "run")
    assert_one_line(called)
    assert called.code in (1, 2)


@pytest.mark.parametrize("override", IMPOSSIBLE)
def test_an_impossible_value_leaves_no_run_behind(tmp_path: Path, files: list[str], override: str) -> None:
    with contextlib.suppress(Exception):  # what it says is the matter of the test above
        runner.train(load_recipe("demo-translate", [*files, override]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def spoil_nothing_there(folder: Path) -> None:
    (folder / "train.es").unlink()


def spoil_lines(folder: Path) -> None:
    (folder / "train.es").write_text("uno\ndos\n", "utf-8")


def spoil_empty(folder: Path) -> None:
    for name in ("train.en", "train.es"):
        (folder / name).write_text("")


def spoil_blank(folder: Path) -> None:
    (folder / "train.es").write_text("\n" * 12)


def spoil_letters(folder: Path) -> None:
    (folder / "train.es").write_bytes(b"uno\ndos\xff\ntres\n" * 4)


def spoil_valid(folder: Path) -> None:
    (folder / "valid.es").write_text("uno\n", "utf-8")


FAULTS = {
    spoil_nothing_there: (2, ["train.es", "no such file"]),
    spoil_lines: (1, ["train.en has 12 lines", "train.es has 2"]),
    spoil_empty: (1, ["no usable pair"]),
    spoil_blank: (1, ["no usable pair", "12 with an empty side"]),
    spoil_letters: (1, ["train.es, line 2", "0xff", "UTF-8"]),
    spoil_valid: (1, ["valid.en has 12 lines", "valid.es has 1"]),
}
every_fault = pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)


@every_fault
def test_a_fault_in_the_data_is_one_line(cli: Cli, files: list[str], tmp_path: Path, spoil: Any) -> None:
    spoil(tmp_path / "text")
    called = cli("train", "demo-translate", *files, "--out", tmp_path / "run")
    code, parts = FAULTS[spoil]
    assert_wrong_use(called, code, *parts)
    assert list(tmp_path.rglob("*.part")) == []


@every_fault
def test_the_same_command_works_once_the_data_are_mended(
    cli: Cli, files: list[str], tmp_path: Path, spoil: Any
) -> None:
    whole = {path: path.read_bytes() for path in (tmp_path / "text").iterdir()}
    command = ("train", "demo-translate", *files, "training.steps=1", "--out", tmp_path / "run")
    spoil(tmp_path / "text")
    assert cli(*command).code == FAULTS[spoil][0]
    for path, content in whole.items():
        path.write_bytes(content)
    assert cli(*command).code == 0


def test_a_run_that_exists_is_not_overwritten(cli: Cli, copy: Path, files: list[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    called = cli("train", "demo-translate", *files, "--out", copy)
    assert_wrong_use(called, 2, str(copy), "exists already", "--resume")
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_resuming_takes_no_new_settings(cli: Cli, trained: Path) -> None:
    called = cli("train", "demo-translate", "training.steps=99", "--resume", "--out", trained)
    assert_wrong_use(called, 2, "training.steps=99")


def test_resuming_a_finished_run_says_so_and_changes_no_weights(cli: Cli, copy: Path) -> None:
    weights = copy / "checkpoints" / "last" / "model.safetensors"
    before = weights.read_bytes()
    called = cli("train", "--resume", "--out", copy)
    assert (called.code, called.err) == (0, "")
    assert "trained 30 steps" in called.out
    assert weights.read_bytes() == before


def test_a_folder_that_is_no_run_is_refused(cli: Cli, tmp_path: Path, text: Path) -> None:
    for arguments in (
        ("evaluate", tmp_path),
        ("translate", tmp_path, text),
        ("look", tmp_path, "a"),
        ("train", "--resume", "--out", tmp_path),
    ):
        assert_wrong_use(cli(*arguments), 2, str(tmp_path), "config.yaml")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "generation_config.json"])
@pytest.mark.parametrize("size", [None, 0, 30])
def test_a_damaged_checkpoint_is_one_line(cli: Cli, copy: Path, text: Path, name: str, size: int | None) -> None:
    path = (copy / "checkpoints" / "best").resolve() / name
    if size is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:size])
    assert_wrong_use(cli("translate", copy, text), 1, name, "is whole: use that instead")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "trainer.json"])
def test_a_damaged_last_checkpoint_is_said_and_the_one_before_it_resumed(
    cli: Cli, trained: Path, copy: Path, name: str
) -> None:
    damaged = copy / "checkpoints" / "30" / name
    damaged.write_bytes(damaged.read_bytes()[:30])
    called = cli("train", "--resume", "--out", copy)
    assert_one_line(called, str(damaged), "going on from step 15", "30.damaged")
    assert called.code == 0
    assert "trained 30 steps" in called.out
    weights = [run / "checkpoints" / "30" / "model.safetensors" for run in (trained, copy)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "trainer.json"])
def test_a_run_without_a_whole_checkpoint_is_not_resumed(cli: Cli, copy: Path, name: str) -> None:
    for step in ("15", "30"):
        (copy / "checkpoints" / step / name).write_bytes(b"")
    before = {path: path.stat().st_mtime_ns for path in (copy / "checkpoints").rglob("*")}
    assert_wrong_use(cli("train", "--resume", "--out", copy), 1, name, "no whole checkpoint")
    assert {path: path.stat().st_mtime_ns for path in (copy / "checkpoints").rglob("*")} == before


def test_a_run_without_a_checkpoint_says_how_to_go_on(cli: Cli, copy: Path, text: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    assert_wrong_use(cli("translate", copy, text), 1, "no checkpoint yet", "--resume")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["evaluate", "RUN", "--split", "exam"], ["exam", "train, valid or test"]),
        (["translate", "RUN", "missing.txt"], ["missing.txt", "no such file"]),
        (["translate", "RUN", "TEXT", "--beam", "0"], ["num_beams"]),
        (["translate", "RUN", "TEXT", "--beam", "-1"], ["num_beams"]),
        (["translate", "RUN", "TEXT", "--nbest", "0"], []),
        (["translate", "RUN", "TEXT", "--nbest", "-2"], []),
        (["translate", "RUN", "TEXT", "--beam", "few"], ["--beam"]),
        (["translate", "RUN", "TEXT", "--sample", "--top-p", "2"], ["top_p"]),
        (["translate", "RUN", "TEXT", "--sample", "--temperature", "0"], ["temperature"]),
        (["translate", "RUN", "TEXT", "--sample", "--beam", "4"], ["--sample", "--beam 4", "leave one of them out"]),
        (["generate", "RUN", "a", "--sample", "--beam", "4"], ["--sample", "--beam 4", "leave one of them out"]),
        (["caption", "RUN", "a.png", "--sample", "--beam", "4"], ["--sample", "--beam 4", "leave one of them out"]),
        (["translate", "RUN", "TEXT", "--max-new-tokens", "0"], ["max_new_tokens"]),
        (["look", "RUN", "a car", "-o", "x.gif"], ["x.gif", ".html, .svg or .png"]),
        (["look", "RUN", "a car", "--layers", "9"], ["9"]),
        (["look", "RUN", "a car", "--layers", "first"], ["--layers", "first"]),
        (["look", "RUN", "a car", "--heads", "7"], ["7"]),
        (["look", "RUN", "  "], ["empty"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and value[0] in VERBS else "",
)
def test_wrong_use_of_a_run_is_one_line_with_code_2(
    cli: Cli,
    trained: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    parts: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"RUN": str(trained), "TEXT": str(text)}
    assert_wrong_use(cli(*(named.get(word, word) for word in arguments)), 2, *parts)
    assert [path.name for path in tmp_path.iterdir()] == [text.name]


def test_input_that_is_not_utf8_is_one_line(cli: Cli, trained: Path, text: Path) -> None:
    text.write_bytes(b"fine\n\xff\n")
    assert_wrong_use(cli("translate", trained, text), 1, "line 2", "UTF-8")


def test_a_picture_that_cannot_be_written_is_one_line(cli: Cli, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("page.html", "map.svg", "map.png"):
        called = cli("look", trained, "a car", "-o", tmp_path / "file" / name)
        assert_wrong_use(called, 1, name)


@pytest.mark.parametrize("limit", [100, 60_000], ids=["the recipe", "the weights"])
def test_a_full_disk_is_one_line_and_leaves_no_half_files(files: list[str], tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "run"
    answer = process(
        "train",
        "demo-translate",
        *files,
        "model.size=64",
        "model.hidden_size=256",
        "--out",
        folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    called = Called(answer.returncode, answer.stdout, answer.stderr)
    assert_wrong_use(called, 1, str(folder))
    assert list(tmp_path.rglob("*.part")) == []
    assert list(tmp_path.rglob("model.safetensors")) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_had_enough_is_no_error(trained: Path, text: Path, unbuffered: str) -> None:
    command = f"{sys.executable} -m regard translate {trained} {text} --beam 1 --max-new-tokens 3 | true"
    answer = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": unbuffered},
    )
    assert (answer.returncode, answer.stderr) == (0, "")
