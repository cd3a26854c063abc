"""Interleaved rounds: every side works once a round, and sides are compared within the round they shared.

On a noisy machine a time by itself means nothing; the ratio of two times taken one right after the other does.
"""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

ROUNDS = 7
QUIET = 0.5  # seconds between two sides: the threads of the one before go on spinning for a while
Work = Callable[[], Any]


def interleaved(sides: Mapping[str, Work], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of every side in every round. Each side warms up once; the side that begins changes."""
    for work in sides.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for number in range(rounds):
        for name in order[number % len(order) :] + order[: number % len(order)]:
            gc.collect()
            time.sleep(QUIET)
            started = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - started)
        print(f"  round {number + 1}: " + ", ".join(f"{name} {seconds[name][-1]:.2f} s" for name in sides), flush=True)
    return seconds


def ratios(seconds: Mapping[str, list[float]], ours: str, theirs: str, promised: float | None = None) -> dict[str, Any]:
    """How many times faster `ours` is: the median over the rounds, the smallest and the largest."""
    found = sorted(slow / quick for quick, slow in zip(seconds[ours], seconds[theirs], strict=True))
    return {
        "ours": ours,
        "theirs": theirs,
        "ratio": round(median(found), 3),
        "least": round(found[0], 3),
        "most": round(found[-1], 3),
        "promised": promised,
    }


def compare(
    sides: Mapping[str, Work], pairs: Mapping[tuple[str, str], float | None], rounds: int = ROUNDS
) -> dict[str, Any]:
    """Seconds of all sides, and the ratio of each pair (ours, theirs) with what is promised of it."""
    seconds = interleaved(sides, rounds)
    found = [ratios(seconds, ours, theirs, promised) for (ours, theirs), promised in pairs.items()]
    for each in found:
        wanted = "" if each["promised"] is None else f" (promised {each['promised']:g})"
        spread = f"[{each['least']:.2f}, {each['most']:.2f}]"
        print(f"{each['ours']} / {each['theirs']}: {each['ratio']:.2f} {spread}{wanted}", flush=True)
    return {
        "rounds": rounds,
        "median_seconds": {name: round(median(values), 4) for name, values in seconds.items()},
        "ratios": found,
    }
