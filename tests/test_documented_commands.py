"""Every command in README and docs is typed here, in a folder that has what it names, or it is said why not.

Their Python that opens a run is run there too; the rest of it runs in tests/test_docs.py.
"""

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jaxtyping import config as shape_checks

import documented_world
from documented_commands import FENCED, ROOT, Command, commands, python_blocks
from documented_commands import PAGES as DOCUMENTS
from regard.cli import main
from regard.recipes import load_recipe, names
from regard.recipes.jobs import named_job

# Why a command is not typed here. The first that fits counts.
REASONS = {
    r"^make demo$": "takes minutes; tests/test_demo.py runs the demo",
    r"^make test$|^pytest ": "runs the tests, of which this is one",
    r"^make (setup|lint|type|docs|bench)": "part of every check of a clone, or builds what another test builds",
    r"^pip ": "installs packages",
    r"\bhf:": "fetches a model; tests/public_checkpoints does so from a server on this machine",
    r"^torchrun ": "needs the data set and many processes; tests/training starts several",
    r"^curl ": "asks a server that runs; tests/explorer has one",
    r"^regard serve ": "does not end; tests/explorer starts it",
    r"--engine ray": "needs Ray; benchmarks/bulk_ray.py does it",
    r"^regard demo": "takes minutes; tests/test_demo.py runs the demo",
    r"^python benchmarks/|^python -m benchmarks": "a measurement of minutes or hours; that it exists is checked below",
    r"^python -m sitework": "a test compares what it draws",
    rf"^regard train (?:{'|'.join(names())})\b": "takes minutes or hours and its data; its recipe is checked below",
    r"--resume --out RUN$": "tests/training kills runs and resumes them",
    r"^regard plan gpt2:tiny .*--simulate": "takes a minute; tests/plan simulates",
}
EVERY = commands()
TYPED = [command for command in EVERY if not any(re.search(known, command.line) for known in REASONS)]
PAGES = sorted({command.page for command in TYPED})
# Trained as told, but shorter.
QUICKLY = ["training.steps=2", "training.validate_every=2", "training.warmup=1", "training.device=cpu"]


def test_commands_are_found_and_most_verbs_are_typed() -> None:
    assert len(EVERY) > 150
    verbs = {command.words[1] for command in TYPED if command.words[0] == "regard"}
    assert verbs >= {"train", "evaluate", "translate", "classify", "tag", "caption", "generate", "fill", "embed"}
    assert verbs >= {"match", "look", "export", "plan"}


def test_no_reason_is_left_over() -> None:
    for known in REASONS:
        if not known.startswith(("^make (", "^regard demo", "^python -m sitework")):
            assert any(re.search(known, command.line) for command in EVERY), known


@pytest.fixture(scope="module", autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield documented_world.build(folder)


def typed(words: list[str], patch: pytest.MonkeyPatch, given: str = "") -> int:
    """`regard WORDS` in this process."""
    patch.setattr(sys, "argv", words)
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8"))
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def prepared(command: Command) -> tuple[list[str], str]:
    """The words of a command, with a run for RUN and every star spelt out, and what comes through a pipe or `<`."""
    line, given = command.line, ""
    if line.startswith("echo "):
        said, _, line = line.partition(" | ")
        given = shlex.split(said)[1] + "\n"
    line = re.sub(r" \| (tail|head) .*$", "", line)
    line, _, _ = line.partition(" > ")
    line, _, read = line.partition(" < ")
    words = shlex.split(line)
    words = [documented_world.MEANT[words[1]] if word == "RUN" else word for word in words]
    words = [name for word in words for name in (map(str, sorted(Path().glob(word))) if "*" in word else [word])]
    return words, Path(read.strip()).read_text("utf-8") if read else given


def recipes_of(page: Path) -> dict[str, str]:
    """The YAML blocks of a page by the file name in their first line."""
    blocks = [block for language, block in FENCED.findall(page.read_text("utf-8")) if language == "yaml"]
    return {block.split("\n")[0].removeprefix("# "): block for block in blocks if block.startswith("# ")}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_they_say(
    page: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = [command for command in TYPED if command.page == page]
    made = {words[words.index("--out") + 1] for words in (command.words for command in here) if "--out" in words}
    documented_world.settle(world, tmp_path, made)
    monkeypatch.chdir(tmp_path)
    for name, text in recipes_of(ROOT / page).items():
        Path(name).write_text(text, "utf-8")
    for command in here:
        words, given = prepared(command)
        assert words[0] == "regard", command.line
        code = typed([*words, *(QUICKLY if words[1] == "train" else [])], monkeypatch, given)
        assert code == 0, f"{command.line}: {capsys.readouterr().err}"
        for option in ("-o", "--out", "--curve"):
            if option in words:
                assert Path(words[words.index(option) + 1]).exists(), command.line


WITH_RUNS = [page for page in DOCUMENTS if '"runs/' in "".join(python_blocks(page))]


@pytest.mark.parametrize("page", WITH_RUNS, ids=lambda page: page.name)
def test_code_that_opens_a_run_runs(page: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documented_world.settle(world, tmp_path, set())
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for code in python_blocks(page):
        exec(compile(code, str(page), "exec"), scope)


TRAININGS = [command for command in EVERY if command.line.startswith("regard train ") and command.words[2] in names()]


@pytest.mark.parametrize("command", TRAININGS, ids=[command.line for command in TRAININGS])
def test_a_training_that_is_not_typed_has_a_recipe_that_fits(command: Command) -> None:
    overrides = [word for word in command.words[3:] if "=" in word]
    recipe = load_recipe(command.words[2], overrides)
    assert named_job(recipe.task)
    assert yaml.safe_dump(recipe.resolved())


MEASUREMENTS = [command for command in EVERY if command.line.startswith("python benchmarks/")]


@pytest.mark.parametrize("command", MEASUREMENTS, ids=[f"{each.page} {each.line}" for each in MEASUREMENTS])
def test_a_measurement_that_is_not_typed_has_its_script_and_its_options(command: Command) -> None:
    script = (ROOT / command.words[1]).read_text("utf-8")
    for option in (word for word in command.words[2:] if word.startswith("--")):
        assert f'"{option}"' in script, option
