"""From recipe to run folder to scores and pictures, and back after an interruption."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError, UsageError
from regard.looking import draw
from regard.recipes import load_recipe, runner
from regard.training.run import Run

TINY = [
    "data.bits=2",
    "data.longest=3",
    "data.test_lengths=[2, 4]",
    "model.controller_size=6",
    "model.cells=6",
    "model.cell_size=4",
    "training.steps=4",
    "training.batch_tokens=32",
    "training.validate_every=2",
    "training.log_every=1",
    "training.device=cpu",
]


class Stop:
    """Asks the trainer to stop after a step, as Ctrl-C would."""

    def __init__(self, at: int):
        self.at = at

    def stepped(self, progress: Any, record: dict[str, float]) -> None:
        import signal

        if progress.step == self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "copy"
    runner.train(load_recipe("copy-ntm", TINY), folder)
    return folder


def test_a_run_logs_its_wrong_bits(trained: Path) -> None:
    records = Run.open(trained).read_metrics()
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    assert {"valid_nll", "valid_wrong_bits", "valid_bits_per_sequence"} <= records[-1].keys()


def test_a_run_is_evaluated_by_length(trained: Path) -> None:
    scores = runner.evaluate(trained)
    assert [known.length for known in scores.lengths] == ["2", "4"]
    assert scores.lengths[0].episodes == 100
    with pytest.raises(UsageError, match="no split"):
        runner.evaluate(trained, "train")


def test_interrupted_and_resumed_is_bitwise_the_uninterrupted(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    _, outcome = runner.train(load_recipe("copy-ntm", TINY), folder, watcher=Stop(3))
    assert outcome.reason == "stopped"
    runner.resume(folder)
    whole, parts = (regard.load(run / "checkpoints" / "last").model.state_dict() for run in (trained, folder))
    for name, tensor in whole.items():
        assert torch.equal(parts[name], tensor), name


def test_a_saved_machine_says_the_same(trained: Path, tmp_path: Path) -> None:
    loaded = regard.load(trained)
    loaded.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.solve(again.episode("3")), loaded.solve(loaded.episode("3")))


def test_a_run_can_be_looked_into(trained: Path, tmp_path: Path) -> None:
    loaded = regard.load(trained)
    assert "answered bits" in draw(loaded, "copy:3", None, None, None, None)
    draw(loaded, "copy:3", None, None, None, str(tmp_path / "memory.png"))
    assert (tmp_path / "memory.png").stat().st_size > 1000
    with pytest.raises(UsageError, match="nothing to look at"):
        draw(loaded, " ", None, None, None, None)


def test_a_checkpoint_without_its_algorithm_is_told_in_one_line(trained: Path, tmp_path: Path) -> None:
    regard.load(trained).save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "algorithm.json").unlink()
    with pytest.raises(RegardError, match=r"algorithm.json: no such file"):
        regard.load(tmp_path / "saved")


@pytest.mark.parametrize("overrides", [["model={preset: lstm:small, size: 6}"], ["model.controller=lstm"]])
def test_other_machines_are_trained_the_same_way(tmp_path: Path, overrides: list[str]) -> None:
    values = [value for value in TINY if not (value.startswith("model.") and overrides[0].startswith("model="))]
    _, outcome = runner.train(load_recipe("copy-ntm", [*overrides, *values]), tmp_path / "run")
    assert outcome.progress.step == 4


@pytest.mark.parametrize(("recipe", "more"), [("repeat-copy-ntm", ["data.most_repeats=2"]), ("recall-ntm", [])])
def test_the_other_algorithms_are_trained_the_same_way(tmp_path: Path, recipe: str, more: list[str]) -> None:
    small = [*TINY[3:], "data.longest=2", "data.test_lengths=[2]", "training.steps=2", *more]
    runner.train(load_recipe(recipe, small), tmp_path / "run")
    assert len(runner.evaluate(tmp_path / "run").lengths) == 1


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("data.name=sort", "no algorithm called 'sort'"),
        ("data.seed=3", "no key 'seed'"),
        ("model.heads=3", "no key 'heads'"),
        ("model.controller=gru", "no controller called 'gru'"),
        ("model.preset=ntm:huge", "choose one of ntm:paper, ntm:small"),
        ("training.optimizer=sgd", "no optimizer called 'sgd'"),
    ],
)
def test_wrong_keys_are_refused_and_leave_no_folder(tmp_path: Path, override: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        runner.train(load_recipe("copy-ntm", [*TINY, override]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
