"""The processes that are measured, and the rounds in which they take turns."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compare.checkouts import Checkout
from compare.intervals import is_narrow

SCRIPT = Path(__file__).with_name("workloads.py")
REST = 0.3  # seconds between two sides: OpenMP's threads spin for a while after their last work
STEP = 10  # rounds that are added while the interval is too wide
VECTORS_AGREE = 1e-5
LOSSES_AGREE = 1e-3  # relative: Adam makes differences of the last digits larger with every step
BEFORE, AGAIN, AFTER = "before", "before again", "after"


class Side:
    """A process that does one workload with one version (see workloads.py)."""

    def __init__(self, checkout: Checkout, workload: str, folder: Path, log: Path):
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), workload, str(folder)],
                env=checkout.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def output(self) -> dict[str, list[Any]]:
        return self._answer("output")

    def seconds(self) -> float:
        return self._answer("seconds")

    def _answer(self, request: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SystemExit(f"a side failed, so nothing is measured:\n{self.log.read_text('utf-8')[-3000:]}")
        return json.loads(line)

    def end(self) -> None:
        self.process.communicate()  # closes its standard input, at which it ends


def difference(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> str | None:
    """How two outputs differ, or None if they agree."""
    if one.keys() != other.keys():
        return f"one has {', '.join(one)}, the other {', '.join(other)}"
    for key in one:
        if len(one[key]) != len(other[key]):
            return f"{len(one[key])} {key}, the other has {len(other[key])}"
        for number, (mine, theirs) in enumerate(zip(one[key], other[key], strict=True)):
            if not AGREEMENT[key](mine, theirs):
                return f"{key}[{number}]: {str(mine)[:200]!r}, the other has {str(theirs)[:200]!r}"
    return None


AGREEMENT: dict[str, Callable[[Any, Any], bool]] = {
    "texts": lambda one, other: one == other,
    "vectors": lambda one, other: (
        len(one) == len(other) and all(abs(x - y) <= VECTORS_AGREE for x, y in zip(one, other, strict=True))
    ),
    "losses": lambda one, other: abs(one - other) <= LOSSES_AGREE * abs(one),
}


def measured(sides: Mapping[str, Callable[[], float]], rounds: int, most: int) -> dict[str, list[float]]:
    """Seconds of every side in every round, the order of the sides changing from round to round.

    Rounds are added until the interval of before / after is narrow, or there are `most`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    orders = itertools.cycle(itertools.permutations(sides))
    while True:
        done = len(seconds[BEFORE])
        if done >= rounds:
            if done >= most or is_narrow(ratios(seconds, AFTER)):
                return seconds
            rounds = min(done + STEP, most)
        for _ in range(done, rounds):
            for name in next(orders):
                time.sleep(REST)
                seconds[name].append(sides[name]())
        print(f"  {rounds} rounds", flush=True)


def ratios(seconds: Mapping[str, list[float]], side: str) -> list[float]:
    """Of every round: the seconds before by those of this side. Above 1 the side is faster than before."""
    return [before / own for before, own in zip(seconds[BEFORE], seconds[side], strict=True)]
