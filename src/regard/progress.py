"""Progress for people: bars on a terminal, silence elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from regard.training.checkpoints import Progress as TrainingProgress


def is_shown() -> bool:
    """On a terminal, and by one of several processes only."""
    return sys.stderr.isatty() and os.environ.get("RANK", "0") == "0"


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar over `total` things (None: nobody knows); call what it gives with how many more are done."""
    if not is_shown():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


class TrainingBar:
    """Steps, tokens per second, loss and time left of a training run (regard.training.loop.Watcher)."""

    def __init__(self, steps: int):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=_console(),
            disable=not is_shown(),
        )
        self.task = self.bar.add_task("training", total=steps, told="")
        self.valid = ""

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.stop()

    def stepped(self, progress: TrainingProgress, record: dict[str, float]) -> None:
        if "valid_perplexity" in record:
            self.valid = f"  valid ppl {record['valid_perplexity']:.2f}"
        speed = record["tokens_per_second"]
        told = f"loss {record['loss']:.3f}{self.valid}  {speed:,.0f} tokens/s"
        self.bar.update(self.task, completed=progress.step, told=told)


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
