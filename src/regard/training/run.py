"""A run folder: everything one training leaves behind.

config.yaml      the resolved recipe
metrics.jsonl    one object per logged step
train.log        the same for people, with what was skipped and what went wrong
tensorboard/     the same for TensorBoard, when it is installed
data/            the tokenised corpus, memory-mapped
checkpoints/     <step>/ ..., and the links `best` and `last`
"""

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError
from regard.files import explained, replace_link, write_text

CONFIG = "config.yaml"


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
        if run.folder.exists() and (not run.folder.is_dir() or any(run.folder.iterdir())):
            raise UsageError(f"{run.folder} exists already: go on with --resume, or choose another folder with --out")
        write_text(run.folder / CONFIG, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        run = cls(folder)
        if not run.folder.is_dir():
            raise UsageError(
                f"{run.folder}: no such run folder; train one with: regard train RECIPE --out {run.folder}"
            )
        if not (run.folder / CONFIG).is_file():
            raise UsageError(f"{run.folder} is not a run folder: it has no {CONFIG}")
        return run

    def config(self) -> dict[str, Any]:
        import yaml

        path = self.folder / CONFIG
        try:
            config = yaml.safe_load(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RegardError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
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
        """Let `best` or `last` be another checkpoint."""
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
                shutil.rmtree(self.checkpoint(step))

    def sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for part in self.checkpoints.glob(".*.part"):
            shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()

    def log_metrics(self, record: dict[str, Any]) -> None:
        with explained(self.metrics), open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def forget_metrics_after(self, step: int) -> None:
        """A resumed run writes the steps after its checkpoint again; its curve must not hold them twice."""
        if self.metrics.exists():
            lines = self.metrics.read_text("utf-8").splitlines()
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= step]
            write_text(self.metrics, "".join(line + "\n" for line in kept))

    def read_metrics(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text("utf-8").splitlines()]

    def log(self, message: str) -> None:
        path = self.folder / "train.log"
        with explained(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {message}\n")
