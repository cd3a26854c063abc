"""The loop: what it learns, what it writes, and that interrupting it changes nothing, to the bit."""

import hashlib
import json
import math
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.batching import Place
from regard.data.corpus import corpus
from regard.data.parts import Divisible
from regard.errors import RegardError, UsageError
from regard.layers import products
from regard.loading import load
from regard.recipes import load_recipe, runner
from regard.training.checkpoints import CHECKSUMS, OPTIMIZER, WEIGHTS, load_progress
from regard.training.loop import Loss, Outcome, Trainer
from regard.training.run import Run
from regard.training.settings import Training

SMALL = [
    "model.size=16",
    "model.hidden_size=32",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "training.batch_tokens=256",
    "training.log_every=1",
    "training.warmup=2",
    "training.device=cpu",
]
TINY = [*SMALL, "data.options={count: 200}", "training.steps=12", "training.validate_every=4"]


# A task small enough to try everything: lines of three numbers, and the plane through them.


@dataclass(frozen=True)
class Lines(Divisible):
    rows: Tensor
    number: int

    shared = ("number",)


class Plane:
    """A fake Task. `nlls` are the validations it will report, the last for ever."""

    def __init__(self, nlls: Sequence[float] = (), broken_at: int | None = None):
        self.nlls, self.broken_at = list(nlls), broken_at
        self.validations = 0

    def batches(self, place: Place) -> Iterator[tuple[Lines, Place]]:
        number = place.batch
        while True:
            draw = torch.Generator().manual_seed(number)
            rows = torch.randn(7, 3, generator=draw)
            if self.broken_at == number + 1:
                rows = rows * math.nan
            yield Lines(rows, number), Place(0, number + 1)
            number += 1

    def count(self, batch: Lines) -> int:
        return len(batch)

    def loss(self, model: nn.Module, batch: Lines) -> Loss:
        total = (model(batch.rows).squeeze(1) - batch.rows.sum(1)).square().sum()
        return Loss(total, total.detach(), len(batch))

    def validate(self, model: nn.Module) -> dict[str, float]:
        self.validations += 1
        if self.nlls:
            return {"nll": self.nlls[min(self.validations, len(self.nlls)) - 1]}
        rows = torch.eye(3)
        return {"nll": (model(rows).squeeze(1) - 1).square().mean().item()}

    def lines(self, batch: Lines) -> str:
        return f"the lines {batch.number}, {batch.number + 1}"


class Watching:
    """A watcher that remembers, and does something at one step."""

    def __init__(self, at: int = -1, act: Callable[[], Any] = lambda: None):
        self.at, self.act, self.steps = at, act, list[int]()

    def stepped(self, progress: Any, record: dict[str, float]) -> None:
        self.steps.append(progress.step)
        if progress.step == self.at:
            self.act()


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def plane_trainer(
    folder: Path, task: Plane | None = None, watcher: Any = None, dropout: float = 0.2, **changes: Any
) -> Trainer:
    values = dict(steps=12, warmup=2, validate_every=3, log_every=1, learning_rate=0.05, device="cpu")
    settings = Training(**{**values, **changes})
    run = Run(folder) if folder.exists() else Run.create(folder, {"about": "a plane"})
    torch.manual_seed(settings.seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(dropout), nn.Linear(8, 1))
    return Trainer(model, task or Plane(), settings, run, {"config.json": "{}"}, watcher)


def last(folder: Path) -> tuple[bytes, bytes]:
    """The weights, and the optimiser with the random generator, to the bit."""
    checkpoint = Run(folder).checkpoint("last")
    return (checkpoint / WEIGHTS).read_bytes(), (checkpoint / OPTIMIZER).read_bytes()


def curve(folder: Path) -> list[tuple[int, float]]:
    return [(record["step"], record["loss"]) for record in Run(folder).read_metrics()]


def test_the_plane_is_learnt(tmp_path: Path) -> None:
    outcome = plane_trainer(tmp_path / "run", dropout=0.0, steps=60).train()
    losses = [loss for _, loss in curve(tmp_path / "run")]
    assert losses[-1] < 0.1 * losses[0]
    assert outcome.reason == "steps"
    assert outcome.progress.step == 60


@pytest.mark.parametrize("pieces", [2, 3, 9])
def test_a_batch_in_pieces_gives_the_same_weights(tmp_path: Path, pieces: int) -> None:
    """Also in more pieces than there are rows."""
    whole = plane_trainer(tmp_path / "whole", Plane(), dropout=0.0)
    split = plane_trainer(tmp_path / "split", Plane(), dropout=0.0, accumulate=pieces)
    whole.train()
    split.train()
    for name, tensor in whole.model.state_dict().items():
        torch.testing.assert_close(split.model.state_dict()[name], tensor, atol=1e-6, rtol=0)
    for (step, loss), (other_step, other_loss) in zip(
        curve(tmp_path / "whole"), curve(tmp_path / "split"), strict=True
    ):
        assert step == other_step
        assert loss == pytest.approx(other_loss, abs=1e-5)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("log_every", [1, 4])
def test_interrupted_and_resumed_is_as_if_nothing_had_happened(tmp_path: Path, step: int, log_every: int) -> None:
    plane_trainer(tmp_path / "whole", log_every=log_every).train()
    watcher = Watching(step, press_ctrl_c)
    stopped = plane_trainer(tmp_path / "parts", watcher=watcher, log_every=log_every).train()
    assert stopped.reason == "stopped"
    assert stopped.progress.step == step
    resumed = plane_trainer(tmp_path / "parts", log_every=log_every)
    resumed.resume()
    assert resumed.train().reason == "steps"
    assert last(tmp_path / "parts") == last(tmp_path / "whole")
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


def test_a_run_whose_batches_come_in_pieces_is_resumed_the_same(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "whole", accumulate=2).train()
    plane_trainer(tmp_path / "parts", watcher=Watching(4, press_ctrl_c), accumulate=2).train()
    resumed = plane_trainer(tmp_path / "parts", accumulate=2)
    resumed.resume()
    resumed.train()
    assert last(tmp_path / "parts") == last(tmp_path / "whole")


def test_interrupted_and_resumed_averages_the_same_checkpoints(tmp_path: Path) -> None:
    nlls = [5.0, 4.0, 3.0, 2.0, 1.0]
    plane_trainer(tmp_path / "whole", Plane(nlls=nlls), average=2).train()
    plane_trainer(tmp_path / "parts", Plane(nlls=nlls), Watching(10, press_ctrl_c), average=2).train()
    resumed = plane_trainer(tmp_path / "parts", Plane(nlls=nlls[3:]), average=2)
    resumed.resume()
    resumed.train()
    whole, parts = (Run(tmp_path / name).checkpoint("average") / WEIGHTS for name in ("whole", "parts"))
    assert parts.read_bytes() == whole.read_bytes()


def test_a_run_that_ends_before_its_averaging_averages_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Trainer) -> None:
        raise KeyboardInterrupt

    nlls = [5.0, 4.0, 3.0, 2.0, 1.0]
    interrupted = plane_trainer(tmp_path / "run", Plane(nlls=nlls), average=2)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_try_average", killed)
        with pytest.raises(KeyboardInterrupt):
            interrupted.train()
    resumed = plane_trainer(tmp_path / "run", Plane(nlls=nlls[4:]), average=2)
    resumed.resume()
    resumed.train()
    assert Run(tmp_path / "run").pointed("best") == "average"


def stopped_on_another_device(folder: Path, own: set[str], **options: Any) -> Run:
    """A run that is stopped after five steps, and whose checkpoint has the random states of other devices."""
    plane_trainer(folder, watcher=Watching(5, press_ctrl_c), **options).train()
    run = Run(folder)
    checkpoint = run.checkpoint("last")
    state = load_file(checkpoint / OPTIMIZER)
    for name in own:
        state[name] = torch.arange(16, dtype=torch.uint8)
    save_file(state, checkpoint / OPTIMIZER)
    sums = json.loads((checkpoint / CHECKSUMS).read_text())
    sums[OPTIMIZER] = hashlib.sha256((checkpoint / OPTIMIZER).read_bytes()).hexdigest()
    (checkpoint / CHECKSUMS).write_text(json.dumps(sums))
    return run


ANOTHER_DEVICE = "was saved on another type of device"


def test_a_run_of_a_gpu_continues_on_a_cpu_and_says_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "random.cuda"
    run = stopped_on_another_device(tmp_path / "run", {name})
    resumed = plane_trainer(tmp_path / "run")
    resumed.resume()
    assert (resumed.train().reason, resumed.progress.step) == ("steps", 12)
    assert (run.folder / "train.log").read_text().count(ANOTHER_DEVICE) == 1
    assert capsys.readouterr().err.count(ANOTHER_DEVICE) == 1
    again = plane_trainer(tmp_path / "run")  # nothing is left of the other device
    again.resume()
    assert (run.folder / "train.log").read_text().count(ANOTHER_DEVICE) == 1
    assert "random.cpu" in load_file(run.checkpoint("last") / OPTIMIZER)
    assert name not in load_file(run.checkpoint("last") / OPTIMIZER)


@pytest.mark.parametrize("name", ["random.cuda", None])
def test_a_gpu_continues_its_own_random_numbers_only(
    tmp_path: Path, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU: what the loop would give to torch.cuda."""
    given: list[Tensor] = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", given.append)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.zeros(16, dtype=torch.uint8))
    run = stopped_on_another_device(tmp_path / "run", set() if name is None else {name})
    trainer = plane_trainer(tmp_path / "run")
    trainer.device = torch.device("cuda")
    trainer.resume()
    assert [each.tolist() for each in given] == [list(range(16))] * (name is not None)
    assert (ANOTHER_DEVICE in (run.folder / "train.log").read_text()) == (name is None)
    trainer.save()
    assert load_file(run.checkpoint("last") / OPTIMIZER)["random.cuda"].tolist() == [0] * 16


@pytest.mark.parametrize(("key", "value"), [("patience", 0), ("patience", -1), ("minutes", 0.0), ("minutes", math.nan)])
def test_a_run_that_would_end_before_its_first_step_is_refused(tmp_path: Path, key: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"^training.{key} is {value} but must be"):
        plane_trainer(tmp_path / "run", **{key: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("average", [0, 2])
def test_a_run_that_is_killed_in_its_first_step_is_resumed_from_the_beginning(tmp_path: Path, average: int) -> None:
    options = dict(average=average, steps=6)
    plane_trainer(tmp_path / "whole", **options).train()

    def twice() -> None:
        press_ctrl_c()
        press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        plane_trainer(tmp_path / "run", watcher=Watching(1, twice), **options).train()
    with pytest.raises(RegardError, match="run"):
        load(tmp_path / "run")
    again = plane_trainer(tmp_path / "run", **options)
    again.resume()
    assert again.train().reason == "steps"
    assert last(tmp_path / "run") == last(tmp_path / "whole")
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    def twice() -> None:
        press_ctrl_c()
        press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        plane_trainer(tmp_path / "run", watcher=Watching(2, twice)).train()


def test_sigterm_saves_and_leaves_like_ctrl_c(tmp_path: Path) -> None:
    watcher = Watching(2, lambda: signal.raise_signal(signal.SIGTERM))
    assert plane_trainer(tmp_path / "run", watcher=watcher).train().reason == "stopped"
    assert Run(tmp_path / "run").pointed("last") == "2"


def test_signals_are_as_before_after_training(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    plane_trainer(tmp_path / "run", steps=1).train()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_somebody_may_ask_it_to_stop_without_a_signal(tmp_path: Path) -> None:
    trainer = plane_trainer(tmp_path / "run")
    trainer.watcher = Watching(5, lambda: setattr(trainer, "stop_asked", True))
    assert trainer.train().progress.step == 5


def test_a_loss_that_is_not_a_number_stops_with_step_lines_and_the_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RegardError) as caught:
        plane_trainer(tmp_path / "run", Plane(broken_at=8)).train()
    told = str(caught.value)
    assert "\n" not in told
    for part in ("step 8", "the lines 7, 8", str(tmp_path / "run" / "checkpoints" / "6"), "learning_rate"):
        assert part in told
    assert told in (tmp_path / "run" / "train.log").read_text("utf-8")
    assert Run(tmp_path / "run").saved_steps() == [3, 6]
    assert all(math.isfinite(loss) for _, loss in curve(tmp_path / "run"))


def test_a_loss_that_is_not_a_number_at_once_says_that_there_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"step 1 .*no checkpoint yet"):
        plane_trainer(tmp_path / "run", Plane(broken_at=1)).train()


def test_patience_stops_early_and_keeps_the_best(tmp_path: Path) -> None:
    task = Plane(nlls=[3.0, 2.0, 2.5, 2.0, 1.0])
    outcome = plane_trainer(tmp_path / "run", task, steps=100, patience=2).train()
    assert outcome == Outcome("patience", outcome.progress)
    assert (outcome.progress.step, outcome.progress.best_step) == (12, 6)
    run = Run(tmp_path / "run")
    assert (run.pointed("best"), run.pointed("last")) == ("6", "12")


def test_the_minutes_end_the_training_with_a_validated_checkpoint(tmp_path: Path) -> None:
    outcome = plane_trainer(tmp_path / "run", minutes=1e-9).train()
    assert (outcome.reason, outcome.progress.step) == ("minutes", 1)
    run = Run(tmp_path / "run")
    assert run.pointed("best") == run.pointed("last") == "1"
    assert "valid_nll" in run.read_metrics()[-1]


def test_a_better_average_becomes_the_best(tmp_path: Path) -> None:
    trainer = plane_trainer(tmp_path / "run", Plane(nlls=[5.0, 4.0, 3.0, 2.0, 1.0]), average=3)
    outcome = trainer.train()
    run = Run(tmp_path / "run")
    assert (run.pointed("best"), run.pointed("last")) == ("average", "12")
    assert outcome.progress.best_loss == 1.0
    mean = load_file(run.checkpoint("average") / WEIGHTS)
    parts = [load_file(run.checkpoint(step) / WEIGHTS) for step in (6, 9, 12)]
    for name, tensor in mean.items():
        expected = torch.stack([part[name].double() for part in parts]).mean(0).float()
        torch.testing.assert_close(tensor, expected, atol=1e-7, rtol=1e-6)
        assert torch.equal(trainer.model.state_dict()[name], parts[-1][name])


def test_a_worse_average_is_not_kept(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "run", Plane(nlls=[5.0, 4.0, 3.0, 2.0, 2.5]), average=3).train()
    run = Run(tmp_path / "run")
    assert run.pointed("best") == "12"
    assert not run.checkpoint("average").exists()


def test_old_checkpoints_go_and_the_best_stays(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "run", Plane(nlls=[1.0, 5.0]), keep=2, steps=15).train()
    run = Run(tmp_path / "run")
    assert run.saved_steps() == [3, 12, 15]
    assert (run.pointed("best"), run.pointed("last")) == ("3", "15")


def test_the_last_step_is_validated_and_saved_wherever_it_falls(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "run", steps=7, log_every=50).train()
    run = Run(tmp_path / "run")
    assert run.saved_steps() == [3, 6, 7]
    assert [record["step"] for record in run.read_metrics()] == [3, 6, 7]


def test_a_logged_loss_is_the_mean_since_the_last_one(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "each", validate_every=4).train()
    plane_trainer(tmp_path / "some", validate_every=4, log_every=4).train()
    each = [loss for _, loss in curve(tmp_path / "each")]
    expected = [(step, sum(each[step - 4 : step]) / 4) for step in (4, 8, 12)]
    assert [step for step, _ in curve(tmp_path / "some")] == [4, 8, 12]
    for (_, loss), (_, wanted) in zip(curve(tmp_path / "some"), expected, strict=True):
        assert loss == pytest.approx(wanted, rel=1e-6)


def test_the_gradient_is_clipped_to_its_norm(tmp_path: Path) -> None:
    trainer = plane_trainer(tmp_path / "run", clip_norm=0.01, steps=1)
    trainer.train()
    norm = math.sqrt(sum(parameter.grad.square().sum().item() for parameter in trainer.model.parameters()))
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_resuming_a_finished_run_returns_at_once(tmp_path: Path) -> None:
    plane_trainer(tmp_path / "run").train()
    before, logged = last(tmp_path / "run"), (tmp_path / "run" / "metrics.jsonl").read_bytes()
    watcher = Watching()
    resumed = plane_trainer(tmp_path / "run", watcher=watcher)
    resumed.resume()
    outcome = resumed.train()
    assert (outcome.reason, outcome.progress.step, watcher.steps) == ("steps", 12, [])
    assert last(tmp_path / "run") == before
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == logged


@pytest.mark.skipif(not products.has_onednn(), reason="this torch has no such product")
def test_quick_products_learn_the_same_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "are_better", lambda: False)
    plane_trainer(tmp_path / "plain").train()
    monkeypatch.setattr(products, "are_better", lambda: True)
    monkeypatch.setattr(products, "LEAST", 1)
    trainer = plane_trainer(tmp_path / "quick")
    assert isinstance(trainer.model[0], products.Linear)  # type: ignore[index]
    trainer.train()
    for (_, ours), (_, torchs) in zip(curve(tmp_path / "quick"), curve(tmp_path / "plain"), strict=True):
        assert ours == pytest.approx(torchs, rel=1e-4)


# The same through a recipe, on the bundled corpus.


def train(folder: Path, *overrides: str, watcher: Any = None) -> Outcome:
    return runner.train(load_recipe("demo-translate", [*TINY, *overrides]), folder, watcher=watcher)[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(folder)
    return folder


def test_a_translator_learns(whole: Path) -> None:
    losses = [loss for _, loss in curve(whole)]
    assert sum(losses[-3:]) < 0.95 * sum(losses[:3])


def test_every_logged_step_has_its_step_loss_and_seconds(whole: Path) -> None:
    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [record["step"] for record in records] == list(range(1, 13))
    assert all(math.isfinite(record["loss"]) and record["loss"] > 0 for record in records)
    seconds = [record["seconds"] for record in records]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 0
    assert [record["step"] for record in records if "valid_nll" in record] == [4, 8, 12]


def test_a_finished_run_has_everything_a_user_expects(whole: Path) -> None:
    run = Run(whole)
    assert {"config.yaml", "metrics.jsonl", "train.log", "checkpoints"} <= {path.name for path in whole.iterdir()}
    assert run.saved_steps() == [4, 8, 12]
    assert run.pointed("last") == "12"
    assert run.pointed("best") == str(load_progress(run.checkpoint("last")).best_step)
    names = {path.name for path in run.checkpoint("last").iterdir()}
    small = {"config.json", "tokenizer.json", "generation_config.json", "trainer.json", "checksums.json"}
    assert {*small, WEIGHTS, OPTIMIZER} == names


@pytest.mark.parametrize("step", [1, 4, 6])
def test_a_translator_interrupted_and_resumed_is_bitwise_the_uninterrupted(
    whole: Path, tmp_path: Path, step: int
) -> None:
    folder = tmp_path / "parts"
    assert train(folder, watcher=Watching(step, press_ctrl_c)).reason == "stopped"
    assert runner.resume(folder)[1].reason == "steps"
    assert last(folder) == last(whole)
    assert curve(folder) == curve(whole)


def test_one_seed_is_one_run_and_another_seed_another(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "again")
    train(tmp_path / "other", "training.seed=1")
    assert last(tmp_path / "again") == last(whole)
    assert last(tmp_path / "other")[0] != last(whole)[0]


# The same in processes of their own, which are killed.

STEPS, SAVE_EVERY = 120, 8


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`regard train` on two small files, without its --out."""
    folder = tmp_path_factory.mktemp("text")
    pairs = corpus("train", count=120)
    for split, part in (("train", pairs[:100]), ("valid", pairs[100:])):
        for language in ("source", "target"):
            text = "".join(getattr(pair, language) + "\n" for pair in part)
            (folder / f"{split}.{language}").write_text(text, "utf-8")
    files = [f"data.{split}=[{folder}/{split}.source, {folder}/{split}.target]" for split in ("train", "valid")]
    steps = [f"training.steps={STEPS}", f"training.validate_every={SAVE_EVERY}", "training.keep=2"]
    return ["train", "demo-translate", *SMALL, *files, *steps, "data.name=null"]


def process(*arguments: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finished(*arguments: str | Path) -> tuple[int, str, str]:
    running = process(*arguments)
    out, err = running.communicate(timeout=900)
    return running.returncode, out, err


def send_at(running: "subprocess.Popen[str]", folder: Path, step: int, number: signal.Signals) -> tuple[int, str, str]:
    """Send the signal as soon as the run has logged this step."""
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 900
    while running.poll() is None and time.monotonic() < deadline:
        # Every step is one line; the file may be cut anywhere while it is written.
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= step:
            break
        time.sleep(0.002)
    running.send_signal(number)
    out, err = running.communicate(timeout=900)
    return running.returncode, out, err


@pytest.fixture(scope="module")
def undisturbed(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes") / "run"
    code, _, err = finished(*command, "--out", folder)
    assert (code, err) == (0, "")
    return folder


def test_a_run_that_is_killed_again_and_again_ends_with_the_very_same_weights(
    command: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    steps = sorted(random.sample(range(SAVE_EVERY + 1, STEPS // 2), 2))
    running = process(*command, "--out", folder)
    for step in steps:
        code, _, err = send_at(running, folder, step, signal.SIGKILL)
        assert code == -signal.SIGKILL, f"killed too late: {code} {err}"
        assert load_progress(Run(folder).checkpoint("last")).finished is None
        running = process("train", "--resume", "--out", folder)
    out, err = running.communicate(timeout=900)
    assert (running.returncode, err) == (0, ""), f"killed at {steps}"
    assert f"trained {STEPS} steps" in out
    assert last(folder) == last(undisturbed), f"killed at {steps}"
    assert curve(folder) == curve(undisturbed), f"killed at {steps}"


def test_ctrl_c_leaves_with_code_0_says_how_to_go_on_and_loses_nothing(
    command: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    code, out, err = send_at(process(*command, "--out", folder), folder, 13, signal.SIGINT)
    assert (code, err) == (0, "")
    assert f"regard train --resume --out {folder}" in out
    assert finished("train", "--resume", "--out", folder)[0] == 0
    assert last(folder) == last(undisturbed)
    assert curve(folder) == curve(undisturbed)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep their own ways")
def test_the_c_library_takes_the_advice_about_freed_memory() -> None:
    advice = "from regard.training.freed_memory import *; print(keep_freed_memory(), return_freed_memory())"
    done = subprocess.run([sys.executable, "-c", advice], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
