"""Whatever is killed, damaged or full: a run goes on to the very same end, and nothing is left behind.

A process that is killed does nothing any more, not even what stands behind `finally`. So from one write on, every
write in these tests fails and changes nothing, and then somebody resumes.
"""

import builtins
import errno
import importlib.util
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from spoiling import cut, empty, flip, lose
from torch import Tensor, nn

from regard.data.batching import Place
from regard.data.parts import Divisible
from regard.errors import RegardError
from regard.recipes import from_values, runner
from regard.training import checkpoints, loop
from regard.training.checkpoints import CHECKSUMS, OPTIMIZER, TRAINER, WEIGHTS, Damaged
from regard.training.loop import Loss, Trainer
from regard.training.recovery import check_for_use, enough_memory
from regard.training.run import Run
from regard.training.settings import Training

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kills.py"
SETTINGS = Training(
    steps=3,
    warmup=2,
    schedule="constant",
    learning_rate=0.05,
    validate_every=1,
    log_every=1,
    keep=1,
    average=2,
    device="cpu",
)


def loaded_benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("kills", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contents = loaded_benchmark().contents  # of a run folder, to the bit, but for what tells of time


@dataclass(frozen=True)
class Lines(Divisible):
    rows: Tensor
    step: int

    shared = ("step",)


class Plane:
    """The smallest Task: lines of three numbers and the plane through them. `before_loss` may spoil a step.

    The last bias walks down by the learning rate of each step: to -0.025, -0.075, -0.125. It is right at -0.1, half-way
    between its last two places, so an average of the last two checkpoints is the best of all.
    """

    def __init__(self, before_loss: Callable[[int], Any] = lambda step: None):
        self.before_loss = before_loss

    def batches(self, place: Place) -> Iterator[tuple[Lines, Place]]:
        for number in count(place.batch):
            rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(number))
            yield Lines(rows, number + 1), Place(0, number + 1)

    def count(self, batch: Lines) -> int:
        return len(batch)

    def loss(self, model: nn.Sequential, batch: Lines) -> Loss:
        self.before_loss(batch.step)
        total = (model(batch.rows).squeeze(1) - batch.rows.sum(1)).square().sum() + 1000 * model[2].bias.sum()
        return Loss(total, total.detach(), len(batch))

    def validate(self, model: nn.Sequential) -> dict[str, float]:
        return {"nll": abs(model[2].bias.item() + 0.1)}

    def lines(self, batch: Lines) -> str:
        return f"the lines of step {batch.step}"


def trainer(run: Run, task: Plane | None = None) -> Trainer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))
    nn.init.zeros_(model[2].bias)
    return Trainer(model, task or Plane(), SETTINGS, run, {"config.json": "{}"})


def train(folder: Path, task: Plane | None = None) -> Path:
    """From the start, or from wherever the folder stands."""
    if Run(folder).is_there():
        going = trainer(Run.open(folder), task)
        going.resume()
    else:
        going = trainer(Run.create(folder, {"about": "a plane"}), task)
    going.train()
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk changes nothing that a test could see, and TensorBoard writes from a thread of its own."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(loop, "_tensorboard", lambda folder: None)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_tensorboard", lambda folder: None)
        found = contents(train(folder))
    assert found["checkpoints/best"] == "average"
    return found


# Death at every write


class Killed(BaseException):
    """No code of the house catches it."""


class Disk:
    """Counts what is done to the disk; after `limit` of that, `fault` comes instead, again and again."""

    def __init__(self, limit: float, fault: Callable[[], BaseException] = Killed):
        self.limit, self.fault, self.done = limit, fault, 0

    def fails(self) -> bool:
        self.done += 1
        return self.done > self.limit

    def guard(self, patch: pytest.MonkeyPatch, place: Any, name: str, half: Callable[..., Any] | None = None) -> None:
        """`half` is what a failing call has done before it fails."""
        real = getattr(place, name)

        def guarded(*arguments: Any, **options: Any) -> Any:
            if self.fails():
                if half is not None and self.done == math.floor(self.limit) + 1:
                    half(*arguments)
                raise self.fault()
            return real(*arguments, **options)

        patch.setattr(place, name, guarded)

    def guard_open(self, patch: pytest.MonkeyPatch) -> None:
        real = builtins.open

        def guarded(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax") and self.fails():
                if self.done == math.floor(self.limit) + 1:
                    with suppress(OSError), real(file, mode, *arguments, **options) as opened:
                        opened.write(b'{"half' if "b" in mode else '{"half')
                raise self.fault()
            return real(file, mode, *arguments, **options)

        patch.setattr(builtins, "open", guarded)
        patch.setattr(io, "open", guarded)


@contextmanager
def failing(disk: Disk, *, also_removing: bool = True) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        disk.guard_open(patch)
        disk.guard(patch, checkpoints, "save_file", half=lambda tensors, path: Path(path).write_bytes(b"half"))
        for name in ("mkdir", "symlink", *(("replace", "unlink", "rmdir") if also_removing else ())):
            disk.guard(patch, os, name)
        yield


def survives(folder: Path, writes: float) -> bool:
    """Train or go on until a process has written so often; whether it came to its end before."""
    with failing(Disk(writes)):
        try:
            train(folder)
        except Killed:
            return False
    return True


def test_a_run_killed_at_any_write_goes_on_to_the_very_same_end(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    for writes in count():
        folder = tmp_path / f"run{writes}"
        if survives(folder, writes):
            break
        assert contents(train(folder)) == undisturbed, f"killed after {writes} writes"
        shutil.rmtree(folder)
    assert writes > 50


def test_a_resumed_run_killed_at_any_write_does_too(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    with failing(disk := Disk(math.inf)):
        train(tmp_path / "counted")
    before = disk.done - 30  # in the middle of the last checkpoint, with the average to come
    for writes in count():
        folder = tmp_path / f"run{writes}"
        assert not survives(folder, before)
        if survives(folder, writes):
            break
        assert contents(train(folder)) == undisturbed, f"killed after {before} and {writes} writes"
        shutil.rmtree(folder)
    assert writes > 20


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def read_only() -> OSError:
    return OSError(errno.EROFS, "Read-only file system")


def complaint(folder: Path, disk: Disk, *, also_removing: bool) -> str | None:
    """What a training says of this disk; nothing, if it comes to its end before."""
    with failing(disk, also_removing=also_removing):
        try:
            train(folder)
        except RegardError as error:
            return str(error)
    return None


@pytest.mark.parametrize(("fault", "every"), [(full, 3), (read_only, 4)], ids=["full", "read-only"])
def test_a_disk_that_takes_no_more_is_one_line_and_the_run_goes_on_when_it_does(
    tmp_path: Path, undisturbed: dict[str, Any], fault: Callable[[], OSError], every: int
) -> None:
    for writes in count(step=every):
        folder = tmp_path / f"run{writes}"
        said = complaint(folder, Disk(writes, fault), also_removing=fault is read_only)
        if said is None:
            break
        assert "\n" not in said
        assert str(fault().strerror) in said
        if fault is full:
            assert list(tmp_path.rglob("*.part")) == []
        assert contents(train(folder)) == undisturbed, f"failed after {writes} writes"
        shutil.rmtree(folder)
    assert writes > 30


# Damage


@pytest.mark.parametrize("harm", [cut, empty, flip, lose])
@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, TRAINER, "config.json"])
def test_a_damaged_last_checkpoint_is_said_once_and_the_one_before_it_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], undisturbed: dict[str, Any], name: str, harm: Any
) -> None:
    folder = train(tmp_path / "run")
    damaged = Run(folder).checkpoint(3) / name
    harm(damaged)
    train(folder)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    aside = folder / "checkpoints" / "3.damaged"
    for part in (str(damaged), "going on from step 2", str(aside)):
        assert part in said
    assert (folder / "train.log").read_text("utf-8").count(said.removeprefix("regard: ")) == 1
    assert aside.is_dir()
    shutil.rmtree(aside)
    assert contents(folder) == undisturbed
    train(folder)
    assert capsys.readouterr().err == ""


def test_a_damaged_checkpoint_that_would_be_averaged_is_put_aside_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def out_of_luck(step: int) -> None:
        if step == 3:
            raise Killed

    folder = tmp_path / "run"
    with pytest.raises(Killed):
        train(folder, Plane(out_of_luck))
    run = Run(folder)
    assert run.saved_steps() == [1, 2]
    flip(run.checkpoint(1) / WEIGHTS)
    train(folder)
    assert "going on from step 2" in capsys.readouterr().err
    assert run.saved_steps() == [2, 3]
    assert (run.pointed("last"), (run.checkpoints / "1.damaged").is_dir()) == ("3", True)


def test_a_checkpoint_is_put_aside_a_second_time(tmp_path: Path) -> None:
    folder = train(tmp_path / "run")
    for harm in (cut, lose):
        harm(Run(folder).checkpoint(3) / WEIGHTS)
        train(folder)
    assert not (folder / "checkpoints" / "3.damaged" / WEIGHTS).exists()
    checkpoints.check(Run(folder).checkpoint("last"))


def test_a_run_whose_checkpoints_are_all_damaged_never_begins_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train(tmp_path / "run")
    run = Run(folder)
    for step in run.saved_steps():
        cut(run.checkpoint(step) / OPTIMIZER)
    before = contents(folder)
    for _ in range(2):
        with pytest.raises(RegardError, match=r"no whole checkpoint.*optimizer.*regard train .*config.yaml") as caught:
            train(folder)
        assert "\n" not in str(caught.value)
    assert contents(folder) == before


def test_a_last_that_leads_nowhere_never_begins_anew(tmp_path: Path) -> None:
    folder = train(tmp_path / "run")
    for step in Run(folder).saved_steps():
        shutil.rmtree(Run(folder).checkpoint(step))
    with pytest.raises(RegardError, match="last leads nowhere"):
        train(folder)


def test_a_run_that_lost_its_links_finds_its_newest_checkpoint(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    folder = train(tmp_path / "run")
    shutil.rmtree(Run(folder).checkpoint(3))
    for name in ("last", "best"):
        (folder / "checkpoints" / name).unlink()
    assert contents(train(folder)) == undisturbed


def test_a_finished_run_that_lost_its_links_gets_its_last_back(tmp_path: Path) -> None:
    folder = train(tmp_path / "run")
    (folder / "checkpoints" / "last").unlink()
    assert Run(train(folder)).pointed("last") == "3"


def test_a_run_of_a_time_without_checksums_goes_on(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    folder = train(tmp_path / "run")
    run = Run(folder)
    shutil.rmtree(run.checkpoint(3))
    (run.checkpoint(2) / CHECKSUMS).unlink()
    trainer_file = run.checkpoint(2) / TRAINER
    values = json.loads(trainer_file.read_text("utf-8"))
    trainer_file.write_text(json.dumps({name: value for name, value in values.items() if name != "sha256"}))
    found = contents(train(folder))
    assert found.keys() == undisturbed.keys() - {f"checkpoints/2/{CHECKSUMS}"}
    assert all(found[name] == undisturbed[name] for name in found)


def test_who_loads_a_damaged_checkpoint_hears_of_one_that_is_whole(tmp_path: Path) -> None:
    run = Run(train(tmp_path / "run"))
    best = run.checkpoint("best")
    check_for_use(best)
    flip(run.checkpoint("average") / WEIGHTS)
    for other in ("3", "2"):
        with pytest.raises(Damaged) as caught:
            check_for_use(best)
        assert "\n" not in str(caught.value)
        assert str(best / WEIGHTS) in str(caught.value)
        assert f"{run.checkpoint(other)} is whole: use that instead" in str(caught.value)
        lose(run.checkpoint(other) / "config.json")
    with pytest.raises(Damaged, match="use another checkpoint of the run"):
        check_for_use(best)


# Memory


def too_large(step: int) -> None:
    if step == 3:
        torch.empty(1 << 50)


def no_more_objects(step: int) -> None:
    if step == 3:
        raise MemoryError


def no_more_of_the_gpu(step: int) -> None:
    if step == 3:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee the documentation.")


@pytest.mark.parametrize("spoil", [too_large, no_more_objects, no_more_of_the_gpu])
def test_too_little_memory_is_one_line_that_says_what_helps_and_loses_nothing(
    tmp_path: Path, undisturbed: dict[str, Any], spoil: Callable[[int], None]
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(RegardError) as caught, enough_memory(Run(folder)):
        train(folder, Plane(spoil))
    said = str(caught.value)
    assert "\n" not in said
    for part in ("out of memory", "training.accumulate", "training.batch_tokens", f"--resume --out {folder}"):
        assert part in said
    assert said in (folder / "train.log").read_text("utf-8")
    assert contents(train(folder)) == undisturbed


def test_other_faults_are_not_taken_for_too_little_memory(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes"), enough_memory(Run(tmp_path)):
        raise RuntimeError("shapes do not fit")


def test_a_recipe_that_takes_too_much_memory_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(self: Trainer, *batch: Any) -> None:
        torch.empty(1 << 50)

    recipe = loaded_benchmark().RECIPE
    monkeypatch.setattr(Trainer, "_update", greedy)
    with pytest.raises(RegardError, match=r"out of memory; raise training\.accumulate"):
        runner.train(from_values(recipe, "test"), tmp_path / "run")


# The real thing: processes, and signals that cannot be caught


def test_a_training_killed_at_random_moments_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    found = loaded_benchmark().measure(tmp_path, kills=3, steps=200, seed=89)
    assert found["while"] == {"running": 1, "writing": 1, "starting": 1}
    assert (found["left_over"], found["missing"], found["different"]) == ([], [], [])
    assert found["files_compared"] > 20
