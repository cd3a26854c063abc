"""A run folder: everything one training leaves behind.

config.yaml      the resolved recipe
metrics.jsonl    one object per logged step
train.log        the same for people, with what was skipped and what went wrong
tensorboard/     the same for TensorBoard, when it is installed
data/            the tokenised corpus, memory-mapped
checkpoints/     <step>/ ..., and the links `best` and `last`
"""

import json
import math
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from regard import settings
from regard.errors import RegardError, UsageError, told
from regard.files import discard, explained, replace_link, sweep, to_disk, write_text

CONFIG = "config.yaml"
ASIDE = ".damaged"  # what the name of a checkpoint ends in that was put aside


class Run:
    """Paths and logs of one run folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        self.metrics = self.folder / "metrics.jsonl"

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any]) -> "Run":
        import yaml

        run = cls(folder)
        if run.folder.exists() and not run._is_empty():
            raise UsageError(f"{run.folder} exists already: go on with --resume, or choose another folder with --out")
        run.sweep()
        write_text(run.folder / CONFIG, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        return run

    def _is_empty(self) -> bool:
        """Nothing is in it, or only what a run left that was killed while it wrote its very first file."""
        return self.folder.is_dir() and all(path.match(f".{CONFIG}.*.part") for path in self.folder.iterdir())

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        run = cls(folder)
        if not run.folder.is_dir():
            raise UsageError(
                f"{run.folder}: no such run folder; train one with: regard train RECIPE --out {run.folder}"
            )
        if not run.is_there():
            raise UsageError(f"{run.folder} is not a run folder: it has no {CONFIG}")
        return run

    def is_there(self) -> bool:
        return (self.folder / CONFIG).is_file()

    def config(self) -> dict[str, Any]:
        path = self.folder / CONFIG
        try:
            config = settings.read_yaml(path.read_text("utf-8"), str(path))
        except (OSError, UnicodeDecodeError, UsageError) as error:
            raise RegardError(f"{path}: cannot be read ({told(error)})") from error
        if not isinstance(config, dict):
            raise RegardError(f"{path}: holds no recipe")
        return config

    def checkpoint(self, name: str | int) -> Path:
        return self.checkpoints / str(name)

    def saved_steps(self) -> list[int]:
        """Steps with a checkpoint, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        return sorted(int(path.name) for path in self.checkpoints.iterdir() if path.name.isdecimal())

    def point(self, name: str, target: str | int) -> None:
        """Let `best` or `last` be another checkpoint, once the curve up to it is on the disk."""
        if self.metrics.exists():
            with explained(self.metrics):
                to_disk(self.metrics)
        replace_link(self.checkpoints / name, str(target))

    def pointed(self, name: str) -> str | None:
        link = self.checkpoints / name
        return str(link.readlink()) if link.is_symlink() else None

    def prune(self, keep: int, counts: Callable[[int], bool] = lambda step: True) -> None:
        """Remove all but the best checkpoint, the last, and the newest `keep` of those that `counts` says count."""
        newest = [step for step in self.saved_steps() if counts(step)][-keep:]
        protected = {self.pointed("best"), self.pointed("last"), *map(str, newest)}
        for step in self.saved_steps():
            if str(step) not in protected:
                discard(self.checkpoint(step))

    def aside(self, step: int) -> Path:
        return self.checkpoints / f"{step}{ASIDE}"

    def put_aside(self, step: int) -> None:
        """Keep a damaged checkpoint under another name: what is left of it may still be of use to somebody."""
        aside = self.aside(step)
        if aside.exists():
            discard(aside)
        with explained(aside):
            os.replace(self.checkpoint(step), aside)

    def go_back_to(self, step: int, best: int | None) -> None:
        """Be as when the checkpoint of this step was the last: what a run does after it, it does again."""
        self.forget_metrics_after(step)
        self.point("last", step)
        if best is not None:
            self.point("best", best if self.checkpoint(best).is_dir() else step)
        if self.checkpoint("average").is_dir():
            discard(self.checkpoint("average"))

    def sweep(self) -> None:
        """Remove what a killed process left half-written."""
        sweep(self.folder)

    def log_metrics(self, record: dict[str, Any]) -> None:
        with explained(self.metrics), open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def forget_metrics_after(self, step: int) -> None:
        """A resumed run writes the steps after its checkpoint again; its curve must not hold them twice."""
        if self.metrics.exists():
            lines = self.metrics.read_text("utf-8", errors="replace").splitlines()
            write_text(self.metrics, "".join(line + "\n" for line in lines if _step_of(line) <= step))

    def read_metrics(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text("utf-8", errors="replace").splitlines()
        return [json.loads(line) for line in lines if _step_of(line) < math.inf]

    def log(self, message: str) -> None:
        path = self.folder / "train.log"
        with explained(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {message}\n")

    def tell(self, message: str) -> None:
        """What a person should know at once, not only when reading the log."""
        self.log(message)
        print(f"regard: {message}", file=sys.stderr)


class Bystander(Run):
    """The run as seen by a process that does not lead: it reads, and leaves all writing to the one that does."""

    def point(self, name: str, target: str | int) -> None: ...

    def prune(self, keep: int, counts: Callable[[int], bool] = lambda step: True) -> None: ...

    def sweep(self) -> None: ...

    def log_metrics(self, record: dict[str, Any]) -> None: ...

    def forget_metrics_after(self, step: int) -> None: ...

    def log(self, message: str) -> None: ...


def _step_of(line: str) -> float:
    """The step a line of the metrics is about; what a killed process left of a line is about none."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf
