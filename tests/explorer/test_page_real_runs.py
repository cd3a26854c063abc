"""The tour of benchmarks/explorer_tour.py: every view of trained runs, as `regard serve` shows them.

What is quick to train is trained here. For the rest, name folders of runs, and of public checkpoints, in REGARD_RUNS
(separated as in PATH): whatever is found in them is driven through the same views.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.recipes import from_values, load_recipe, runner

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.browser

PROSE = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog .", "the dog saw the mat ."] * 8
TEXTS = {"reversal": "c a d b e", "demo": "the small dog sees a white house ."}  # to be typed
QUICK = ["training.warmup=10", "training.log_every=20", "training.device=cpu"]
ELSEWHERE = "http://127.0.0.1:1080/"  # where nobody listens


def load_tour() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "explorer_tour.py"
    spec = importlib.util.spec_from_file_location("explorer_tour", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


tour = load_tour()


def train_demo(folder: Path) -> None:
    """A Transformer on the demo's sentences."""
    small = ["model.size=32", "model.hidden_size=48", "training.steps=60", "training.validate_every=60"]
    runner.train(load_recipe("demo-translate", [*small, "training.batch_tokens=512", *QUICK]), folder)


def train_reversal(folder: Path) -> None:
    """Luong's attention, learning to say it backwards."""
    small = ["model.size=24", "model.embedding_size=24", "training.steps=100", "training.validate_every=100"]
    runner.train(load_recipe("reversal-luong", [*small, "training.batch_tokens=256", *QUICK]), folder)


def train_copy(folder: Path) -> None:
    """A Neural Turing Machine."""
    small = ["data.bits=3", "data.longest=4", "data.test_lengths=[3]", "model.controller_size=12", "model.cells=16"]
    steps = ["training.steps=60", "training.validate_every=60", "training.batch_tokens=64"]
    runner.train(load_recipe("copy-ntm", [*small, "model.cell_size=6", *steps, *QUICK]), folder)


def train_prose(folder: Path) -> None:
    """A GPT-2 on a few sentences."""
    text = folder.with_suffix(".txt")
    text.write_text("\n".join(PROSE) + "\n", "utf-8")
    data: dict[str, Any] = {"train": str(text), "valid": str(text), "test": str(text), "vocabulary": 60}
    sizes = {"size": 24, "hidden_size": 48, "heads": 3, "layers": 2, "context": 96}
    training = {"steps": 60, "batch_tokens": 128, "validate_every": 60, "label_smoothing": 0.0, "device": "cpu"}
    values = {
        "task": "language-model",
        "data": {**data, "chunk": 16, "context": 16},
        "model": {"preset": "gpt2:char", **sizes},
        "training": {**training, "learning_rate": 0.01, "warmup": 5, "log_every": 20},
        "decoding": {"num_beams": 1, "max_new_tokens": 8},
    }
    runner.train(from_values(values, "test"), folder)


TRAINED = {
    "demo": (
        train_demo,
        (
            "alignment",
            "heads",
            "model",
            "steps",
            "next",
            "beam",
            "positions",
            "whatif",
            "importance",
            "through",
            "lens",
        ),
    ),
    "reversal": (train_reversal, ("alignment", "heads", "steps", "next", "beam", "export")),
    "copy": (train_copy, ("memory", "export")),
    "prose": (train_prose, ("reading", "next", "whatif", "lens", "export")),
}
PAIRS = [(run, view) for run, (_, views) in TRAINED.items() for view in views]
GIVEN = [Path(part) for part in os.environ.get("REGARD_RUNS", "").split(os.pathsep) if part]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    with tour.browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def trained(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a server of small runs, and its models by name."""
    folder = tmp_path_factory.mktemp("trained")
    for name, (train, _) in TRAINED.items():
        train(folder / name)
    with tour.served([folder / name for name in TRAINED]) as (address, _):
        yield address, {model.name: model for model in tour.models_of(browser, address, TEXTS)}


@pytest.fixture(scope="module")
def given(browser: Any) -> Iterator[tuple[str, list[Any]]]:
    """The same for what REGARD_RUNS names."""
    if not GIVEN:
        pytest.skip("no trained runs: name their folders in REGARD_RUNS")
    runs = tour.found_runs(GIVEN) + [folder for folder in GIVEN if (folder / "config.json").is_file()]
    with tour.served(runs) as (address, _):
        yield address, tour.models_of(browser, address)


def checked(stop: Any) -> None:
    assert stop.fault is None, f"{stop.model}, {stop.view}: {stop.fault}"
    assert (stop.console, stop.elsewhere) == ([], [])
    assert len(stop.pictures) == 3  # light, dark, and on a phone


@pytest.mark.parametrize(("run", "view"), PAIRS)
def test_a_trained_run_is_looked_into(run: str, view: str, browser: Any, trained: Any, tmp_path: Path) -> None:
    address, models = trained
    assert tour.VIEWS[view].fits(models[run])
    checked(tour.stop_at(view, models[run], browser, address, tmp_path))


@pytest.mark.parametrize("view", list(tour.VIEWS))
def test_every_view_of_given_runs(view: str, browser: Any, given: Any, tmp_path: Path) -> None:
    address, models = given
    fitting = [model for model in models if tour.VIEWS[view].fits(model)]
    if not fitting:
        pytest.skip(f"none of the runs in REGARD_RUNS has the view {view}")
    for model in fitting:
        checked(tour.stop_at(view, model, browser, address, tmp_path))


def test_a_fault_a_word_and_a_request_elsewhere_are_told(
    browser: Any, trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def astray(visitor: Any, page: Any, model: Any) -> None:
        page.evaluate("console.log('a word')")
        page.goto(ELSEWHERE)

    address, models = trained
    monkeypatch.setitem(tour.VIEWS, "beam", replace(tour.VIEWS["beam"], drive=astray))
    stop = tour.stop_at("beam", models["demo"], browser, address, tmp_path)
    assert not stop.is_good
    assert "ERR_CONNECTION_REFUSED" in stop.fault
    assert "a word" in stop.console
    assert stop.elsewhere == [ELSEWHERE]
    assert stop.pictures == []
