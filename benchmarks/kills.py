"""Kill a training again and again and resume it each time: the same weights to the bit, and nothing left behind.

    python benchmarks/kills.py [--kills 50] [--steps 3000] [--seed 0] [--out runs/kills]

A tiny Transformer learns to say sequences backwards, with dropout, a checkpoint every few steps and an average at the
end. One run is left alone. The other is killed (SIGKILL, which no process can answer) at moments drawn from the seed:

    running     some time after a step, drawn from all steps of the training
    writing     the same, but then when a checkpoint is being written or removed
    starting    before its first step: while it is loaded, looks at what is there, and mends it

At the end both folders must hold the same files with the same bytes, but for what tells of time.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAME = "kills"
KINDS = {"running": 5, "writing": 4, "starting": 1}  # and how often
SAVE_EVERY = 10  # steps
WRITING_SECONDS = 0.02  # a checkpoint of this model takes about as long
RECIPE: dict[str, Any] = {
    "about": "say sequences backwards, to be killed",
    "task": "translate",
    "data": {"name": "reversal", "options": {"count": 400, "longest": 6, "symbols": 20}, "tokenizer": "word"},
    "model": {
        "preset": "transformer:tiny",
        "size": 32,
        "hidden_size": 64,
        "heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dropout": 0.1,
    },
    "training": {
        "batch_tokens": 256,
        "learning_rate": 0.003,
        "warmup": 50,
        "validate_every": SAVE_EVERY,
        "log_every": 1,
        "keep": 2,
        "average": 3,
        "device": "cpu",
    },
}


@dataclass(frozen=True)
class Kill:
    kind: str
    step: int  # not before
    later: float  # the share of a start, of a checkpoint, or of the time between two of them, that passes first


class Training:
    """`regard train` in a process of its own, and its run folder."""

    def __init__(self, recipe: Path, folder: Path):
        self.folder, self.metrics = folder, folder / "metrics.jsonl"
        self.curve_before = self._curve()
        begun = (folder / "config.yaml").is_file()
        arguments = ["--resume"] if begun else [str(recipe)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard", "train", *arguments, "--out", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def end(self) -> None:
        _, errors = self.process.communicate()
        if self.process.returncode or errors:
            raise SystemExit(f"training ended with code {self.process.returncode}: {errors}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        _, errors = self.process.communicate()
        if self.process.returncode != -signal.SIGKILL:
            raise SystemExit(f"it had ended by itself, with code {self.process.returncode}: {errors}")

    def wait_for_start(self, seconds: float = math.inf) -> None:
        """So long, but not beyond the start: a resumed run begins by writing its curve anew."""
        self._wait(lambda: self._curve() not in (None, self.curve_before), seconds)

    def wait_for_step(self, step: int) -> None:
        """Until this process has done a step of its own, and the run has come as far as `step`."""
        self.wait_for_start()
        step = max(step, self._last_step() + 1)
        self._wait(lambda: self._last_step() >= step)

    def wait_for_writing(self) -> None:
        self._wait(lambda: bool(half_written(self.folder / "checkpoints")), pause=0.0005)

    def wait_for_steps(self, seconds: float) -> None:
        """So long, but not beyond the next checkpoint, however fast it has become."""
        step = self._last_step() + SAVE_EVERY
        self._wait(lambda: self._last_step() >= step, seconds)

    def _wait(self, happened: Callable[[], bool], seconds: float = math.inf, pause: float = 0.002) -> None:
        over = time.monotonic() + seconds
        while self.process.poll() is None and not happened() and time.monotonic() < over:
            time.sleep(pause)

    def _curve(self) -> int | None:
        return self.metrics.stat().st_ino if self.metrics.exists() else None

    def _last_step(self) -> int:
        if not self.metrics.exists():
            return 0
        with open(self.metrics, "rb") as file:
            file.seek(max(0, os.path.getsize(self.metrics) - 2000))
            lines = file.read().split(b"\n")[:-1]  # whatever follows the last end of a line is half a line
        try:
            return int(json.loads(lines[-1])["step"])
        except (IndexError, ValueError):
            return 0


def half_written(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.part")) if folder.is_dir() else []


def planned(kills: int, steps: int, seed: int) -> list[Kill]:
    draw = random.Random(seed)
    kinds = draw.choices(list(KINDS), list(KINDS.values()), k=kills)
    places = sorted(draw.randrange(1, steps) for _ in range(kills))
    return [Kill(kind, step, draw.random()) for kind, step in zip(kinds, places, strict=True)]


def measure(out: Path, kills: int, steps: int, seed: int) -> dict[str, Any]:
    """Train once undisturbed and once with kills; what the two folders differ in."""
    out.mkdir(parents=True, exist_ok=True)
    recipe, whole, folder = out / "recipe.yaml", out / "whole", out / "killed"
    for old in (whole, folder):
        shutil.rmtree(old, ignore_errors=True)
    recipe.write_text(yaml.safe_dump({**RECIPE, "training": {**RECIPE["training"], "steps": steps}}), "utf-8")
    started = time.monotonic()
    undisturbed = Training(recipe, whole)
    undisturbed.wait_for_start()
    start_seconds = time.monotonic() - started
    undisturbed.end()
    between_saves = (time.monotonic() - started - start_seconds) / steps * SAVE_EVERY
    left_half = 0
    for number, kill in enumerate(planned(kills, steps, seed), 1):
        training = Training(recipe, folder)
        if kill.kind == "starting":
            training.wait_for_start(kill.later * start_seconds)
        else:
            training.wait_for_step(kill.step)
        if kill.kind == "running":
            training.wait_for_steps(kill.later * between_saves)
        elif kill.kind == "writing":
            training.wait_for_writing()
            time.sleep(kill.later * WRITING_SECONDS)
        training.kill()
        left = half_written(folder)
        left_half += bool(left)
        print(f"{number}/{kills}: killed while {kill.kind}, half-written: {len(left)}", flush=True)
    Training(recipe, folder).end()
    ours, theirs = contents(folder), contents(whole)
    return {
        "kills": kills,
        "while": dict(Counter(kill.kind for kill in planned(kills, steps, seed))),
        "kills_that_left_something_half_written": left_half,
        "steps": steps,
        "files_compared": len(theirs),
        "left_over": sorted(ours.keys() - theirs.keys()),
        "missing": sorted(theirs.keys() - ours.keys()),
        "different": sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]),
        "seconds": round(time.monotonic() - started),
    }


def contents(folder: Path) -> dict[str, Any]:
    """Everything in a run folder, to the bit, but for what tells of time: logs, and seconds in the curve."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = None
        elif path.name == "metrics.jsonl":
            found[name] = [timeless(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        elif path.name == "trainer.json":
            found[name] = timeless(json.loads(path.read_text("utf-8")))
        else:
            found[name] = path.read_bytes()
    return {name: kept for name, kept in found.items() if not name.startswith(("tensorboard", "train.log"))}


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in record.items() if name not in ("seconds", "tokens_per_second", "sha256")}
    return {name: timeless(value) if isinstance(value, dict) else value for name, value in kept.items()}


def main() -> None:
    from result_files import write_result

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(f"runs/{NAME}"))
    arguments = parser.parse_args()
    found = measure(arguments.out, arguments.kills, arguments.steps, arguments.seed)
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    command = f"python benchmarks/kills.py --kills {arguments.kills} --steps {arguments.steps} --seed {arguments.seed}"
    print(f"wrote {write_result(NAME, command, found)}")
    if found["left_over"] or found["missing"] or found["different"]:
        sys.exit("the killed run is not the undisturbed one")


if __name__ == "__main__":
    main()
