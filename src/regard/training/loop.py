"""The training loop, the same for every task.

A task brings batches, a loss as *sum and count*, a validation, and the small files that make a checkpoint usable.
The loop brings everything else: accumulation, clipping, the schedule, logs, checkpoints, early stopping, averaging,
and a resume that continues the very same curve. What a run needs to go on bit by bit is its weights, its optimiser,
its random generator and its place in the data; a checkpoint holds exactly these.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.data.batching import Place
from regard.data.parts import Divisible, share_of
from regard.errors import RegardError, told
from regard.layers.products import quicken
from regard.processors import limit_threads
from regard.training import checkpoints
from regard.training.checkpoints import Progress
from regard.training.company import Company
from regard.training.compiled import compile_blocks
from regard.training.freed_memory import keep_freed_memory
from regard.training.optimizers import (
    check_random_state,
    load_state_tensors,
    make_optimizer,
    set_rate,
    state_tensors,
)
from regard.training.recompute import forget_inside_blocks
from regard.training.recovery import mend
from regard.training.run import Run
from regard.training.schedules import rate
from regard.training.settings import Training
from regard.training.shards import pour

RANDOM = "random."  # what the names of the random number generators' states begin with


@dataclass(frozen=True)
class Loss:
    """Sums over a batch, so that batches can be split and joined without changing the result."""

    total: Tensor  # what is minimised; carries the gradient
    nll: Tensor  # plain negative log-likelihood, for perplexity
    count: int  # what both are divided by


class Task(Protocol):
    """What the loop must know about what is being learnt."""

    def batches(self, place: Place) -> Iterator[tuple[Divisible, Place]]:
        """Batches without end from `place` on, each with the place after it."""

    def count(self, batch: Any) -> int:
        """What the loss of this batch will be divided by."""

    def loss(self, model: nn.Module, batch: Any) -> Loss: ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Metrics on held-out data; `nll` is the one that must fall."""

    def lines(self, batch: Any) -> str:
        """Where a batch comes from, for the report of a loss that is not a number."""


class Watcher(Protocol):
    """Whoever looks on: a progress bar, a notebook, nobody."""

    def stepped(self, progress: Progress, record: dict[str, float]) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How training ended."""

    reason: str  # "steps", "minutes", "patience" or "stopped"
    progress: Progress


class Trainer:
    """Trains one model on one task in one run folder; `files` are what belongs into every checkpoint, by name."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: Training,
        run: Run,
        files: dict[str, str],
        watcher: Watcher | None = None,
        company: Company | None = None,
    ):
        keep_freed_memory()
        limit_threads()
        self.device = choose_device(settings.device)
        self.model, self.task, self.settings, self.run = model.to(self.device), task, settings, run
        self.files, self.watcher, self.company = files, watcher, company or Company()
        if settings.recompute:
            forget_inside_blocks(self.model)
        if settings.compile:
            compile_blocks(self.model, self.device)
        else:
            quicken(self.model)
        self.company.share(self.model)
        self.optimizer = make_optimizer(model, settings)
        self.progress = Progress()
        self.stop_asked = False
        self.writer = _tensorboard(run.folder) if self.company.leads else None

    def resume(self) -> None:
        """Take up the run where its newest whole checkpoint left it."""
        if self.company.leads:
            mend(self.run, self.settings.average)
        self.company.wait()
        folder = self.run.checkpoint("last")
        if not folder.exists():
            return
        self.progress = checkpoints.load_progress(folder)
        if self.progress.finished:
            return
        checkpoints.load_weights(self.model, folder)
        self._restore(folder / checkpoints.OPTIMIZER)
        self.run.prune(max(self.settings.keep, self.settings.average), self._counts)

    def _restore(self, path: Path) -> None:
        """The states of the random generators and of the optimiser, from the file of a checkpoint."""
        state = checkpoints.load_tensors(path)
        if f"{RANDOM}cpu" not in state:
            raise RegardError(f"{path}: lacks {RANDOM}cpu; it is not the state of this run")
        try:
            self._set_random_states({name: state.pop(name) for name in list(state) if name.startswith(RANDOM)})
            load_state_tensors(self.optimizer, state)
        except (RegardError, AttributeError, RuntimeError, TypeError) as error:
            raise RegardError(f"{path}: {told(error)}; it is not the state of this run") from error

    def _random_states(self) -> dict[str, Tensor]:
        """The states of the random number generators, by the types of their devices."""
        states = {f"{RANDOM}cpu": torch.get_rng_state()}
        if self.device.type != "cpu":
            states[RANDOM + self.device.type] = _device_random(self.device).get_rng_state()
        return states

    def _set_random_states(self, saved: dict[str, Tensor]) -> None:
        """Continue the saved random number generators, where this device is of the type that they were saved on."""
        own = RANDOM + self.device.type
        check_random_state(saved[f"{RANDOM}cpu"])
        torch.set_rng_state(saved[f"{RANDOM}cpu"])
        if self.device.type != "cpu" and own in saved:
            _device_random(self.device).set_rng_state(saved[own])
        if saved.keys() != {f"{RANDOM}cpu", own} and self.company.leads:
            self.run.tell(
                f"the checkpoint of step {self.progress.step} was saved on another type of device; the run continues "
                f"on {self.device.type}, but its weights are no longer bitwise those of an uninterrupted run"
            )

    def train(self) -> Outcome:
        """Go on until the steps, the minutes or the patience are used up, or somebody presses Ctrl-C."""
        if self.progress.finished:
            return Outcome(self.progress.finished, self.progress)
        self.model.train()
        batches = self.task.batches(Place(self.progress.epoch, self.progress.batch))
        with self._stop_on_signals():
            reason = self._why_stop()
            while reason is None:
                started = time.perf_counter()
                self._update(*next(batches))
                self._count("seconds", self._agreed_seconds(time.perf_counter() - started))
                validates = self.progress.step % self.settings.validate_every == 0
                reason = self._why_stop()
                self._log(self._validate() if validates or reason else {})
                reason = reason or self._why_stop() or self._was_stopped()
                if validates or reason:
                    self.save()
        if reason != "stopped":
            self._finish(reason)
        self.run.log(f"training ended: {reason}, step {self.progress.step}, {self.progress.seconds:.0f} s")
        return Outcome(reason, self.progress)

    def _finish(self, reason: str) -> None:
        """What is done once, after the last step; a run that dies before it does it when it is resumed."""
        if self.settings.average > 1:
            self._try_average()
        self.progress.finished = reason
        if self.company.leads:
            checkpoints.save_progress(self.run.checkpoint("last"), self.progress)

    def _update(self, batch: Divisible, after: Place) -> None:
        step = self.progress.step + 1
        self.company.begin_step(self.settings.seed, step)
        fraction = rate(self.settings.schedule, step, self.settings.warmup or 0, self.settings.steps)
        set_rate(self.optimizer, self.settings.learning_rate * fraction)
        self.optimizer.zero_grad()
        count = self.task.count(batch)
        total, nll = self._gradients(batch, count)
        if not math.isfinite(total):
            self._give_up(step, batch)
        if self.settings.clip_value is not None:
            torch.nn.utils.clip_grad_value_(self.model.parameters(), self.settings.clip_value)
        if self.settings.clip_norm is not None:
            self.company.clip_norm(self.settings.clip_norm)
        self.optimizer.step()
        self.progress.step, self.progress.epoch, self.progress.batch = step, after.epoch, after.batch
        for name, value in (("loss", total), ("nll", nll), ("count", count)):
            self._count(name, value)

    def _gradients(self, batch: Divisible, count: int) -> tuple[float, float]:
        """Add up the gradients of a batch, piece by piece, and its sums of loss and nll."""
        size, pieces = self.company.size, self.settings.accumulate
        total, nll = 0.0, 0.0
        for number in range(pieces):
            rows = share_of(len(batch), self.company.rank * pieces + number, size * pieces)
            # Whoever has no row computes one for nothing: all must meet when gradients are exchanged.
            weight = 1 if rows.start < rows.stop else 0
            piece = batch if size * pieces == 1 else batch.part(rows if weight else slice(0, 1))
            with self.company.piece(is_last=number == pieces - 1):
                with self._precision():
                    loss = self.company.compute(partial(self.task.loss, batch=piece.made()))
                # Gradients are averaged over the processes, but a loss is a sum.
                (loss.total / count * (weight * size)).backward()
            total, nll = total + weight * loss.total.item(), nll + weight * loss.nll.item()
        self.company.gradients_done()
        total, nll = self.company.total(total, nll)
        return total, nll

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16")

    def _agreed_seconds(self, own: float) -> float:
        return self.company.total(own)[0] / self.company.size

    def _was_stopped(self) -> str | None:
        """Whether anybody has been asked to stop."""
        return "stopped" if self.company.total(self.stop_asked)[0] else None

    def _count(self, name: str, value: float) -> None:
        """Add to what the next line of the metrics will report."""
        self.progress.since_log[name] = self.progress.since_log.get(name, 0.0) + value
        if name == "seconds":
            self.progress.seconds += value

    def _give_up(self, step: int, batch: Any) -> None:
        last = self.run.pointed("last")
        good = f"the last good checkpoint is {self.run.checkpoint(last)}" if last else "there is no checkpoint yet"
        message = (
            f"the loss is not a number at step {step} (batch of {self.task.lines(batch)}); {good}; "
            "lower training.learning_rate or look at these lines"
        )
        self.run.log(message)
        raise RegardError(message)

    def _why_stop(self) -> str | None:
        settings, progress = self.settings, self.progress
        if progress.step >= settings.steps:
            return "steps"
        if settings.minutes is not None and progress.seconds >= 60 * settings.minutes:
            return "minutes"
        if settings.patience is not None and progress.stale >= settings.patience:
            return "patience"
        return None

    def _validate(self) -> dict[str, float]:
        metrics = self._validation()
        loss = metrics["valid_nll"]
        if self.progress.best_loss is None or loss < self.progress.best_loss:
            self.progress.best_loss, self.progress.best_step, self.progress.stale = loss, self.progress.step, 0
        else:
            self.progress.stale += 1
        return metrics

    def _validation(self) -> dict[str, float]:
        self.model.eval()
        # Borrowed weights outlive a validation, and must be able to learn afterwards.
        with torch.inference_mode() if self.company.size == 1 else torch.no_grad():
            metrics = self.company.compute(self.task.validate)
        self.model.train()
        return {f"valid_{name}": value for name, value in metrics.items()}

    def _log(self, validation: dict[str, float]) -> None:
        progress, sums = self.progress, self.progress.since_log
        record = {
            "step": progress.step,
            "loss": sums["loss"] / sums["count"],
            "nll": sums["nll"] / sums["count"],
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "epoch": progress.epoch,
            "seconds": round(progress.seconds, 3),
            "tokens_per_second": round(sums["count"] / sums["seconds"]),
            **validation,
        }
        if self.watcher is not None and self.company.leads:
            self.watcher.stepped(progress, record)
        if not validation and progress.step % self.settings.log_every:
            return
        progress.since_log = {}
        self.run.log_metrics(record)
        self.run.log("  ".join(f"{name} {value:.6g}" for name, value in record.items()))
        if self.writer is not None:
            for name, value in record.items():
                self.writer.add_scalar(name, value, progress.step)
            self.writer.flush()

    def save(self) -> None:
        """Write a checkpoint of this step and move `last` (and, if it is the best, `best`) to it."""
        state = {**state_tensors(self.optimizer), **self._random_states()}
        step = self.progress.step
        self._save(self.run.checkpoint(step), state)
        self.run.point("last", step)
        if self.progress.best_step == step:
            self.run.point("best", step)
        self.run.prune(max(self.settings.keep, self.settings.average), self._counts)

    def _save(self, folder: Path, state: dict[str, Tensor] | None = None) -> None:
        """All give their shares, the leader writes, and nobody goes on before it is done."""
        with self.company.collected(folder, self.model, state) as (weights, collected):
            if self.company.leads:
                checkpoints.save(folder, weights, self.files, collected, self.progress)
        self.company.wait()

    def _counts(self, step: int) -> bool:
        """Whether an uninterrupted run would have a checkpoint of this step; only those are kept and averaged."""
        ended = step == self.progress.step and self._why_stop() is not None
        return step % self.settings.validate_every == 0 or ended

    def _try_average(self) -> None:
        """Average the newest checkpoints; the average becomes the best if it validates better."""
        steps = [step for step in self.run.saved_steps() if self._counts(step)][-self.settings.average :]
        mean = checkpoints.average([self.run.checkpoint(step) for step in steps])
        last = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        pour(mean, self.model)
        metrics = self._validation()
        if self.progress.best_loss is None or metrics["valid_nll"] < self.progress.best_loss:
            self.progress = replace(self.progress, best_loss=metrics["valid_nll"])
            self._save(self.run.checkpoint("average"))
            self.run.point("best", "average")
        told = "  ".join(f"{name} {value:.6g}" for name, value in metrics.items())
        self.run.log(f"average of the checkpoints {', '.join(map(str, steps))}: {told}")
        pour(last, self.model)

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the step, save, and leave; a second Ctrl-C does not wait."""

        def ask(number: int, frame: Any) -> None:
            if self.stop_asked:
                raise KeyboardInterrupt
            self.stop_asked = True

        previous: dict[int, Any] = {}
        try:
            for caught in (signal.SIGINT, signal.SIGTERM):
                previous[caught] = signal.signal(caught, ask)
        except ValueError:  # not the main thread: whoever runs us there must stop us otherwise
            previous = {}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def choose_device(name: str) -> torch.device:
    """`auto` takes CUDA, then Apple's MPS, then the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise RegardError(f"training.device={name} cannot be used here ({str(error).splitlines()[0]})") from error


def _device_random(device: torch.device) -> Any:
    return getattr(torch, device.type)


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    make: Callable[..., Any] = SummaryWriter
    return make(str(folder / "tensorboard"))
