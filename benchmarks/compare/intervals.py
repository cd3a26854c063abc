"""Medians of ratios with their confidence intervals, and what they prove."""

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import Any

CONFIDENCE = 0.95
FEWEST = 31  # rounds that prove anything
LEAST_RATIO = 0.98  # of the seconds before to the seconds after
WIDEST = 0.04  # of the interval of a median that proves anything
HOLDS, MISSED, CANNOT_BE_TOLD = "holds", "missed", "cannot be told"


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """A confidence interval of the median of the distribution that the values were drawn from.

    Its ends are the k-th smallest and the k-th largest value, with the largest k for which the interval contains the
    median with at least this probability: 1 - 2 P(B < k), where B is the number of values below the median, which is
    binomial (n, 1/2) whatever the distribution is. Fewer than 6 values are too few for 95 %: their range is returned.
    """
    count = len(values)
    if count == 0:
        raise ValueError("the median of no values has no interval")
    outside, rank = 0.0, 0  # `outside` is P(B < rank + 1)
    while True:
        outside += comb(count, rank) / 2**count
        if 2 * outside > 1 - confidence:
            break
        rank += 1
    rank = max(rank, 1)
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def summary(ratios: Sequence[float]) -> dict[str, Any]:
    """The median of the ratios, its interval, and the ratio of each round."""
    low, high = median_interval(ratios)
    return {
        "median": round(median(ratios), 4),
        "interval": [round(low, 4), round(high, 4)],
        "width": round(high - low, 4),
        "per_round": [round(ratio, 4) for ratio in ratios],
    }


def is_narrow(ratios: Sequence[float]) -> bool:
    low, high = median_interval(ratios)
    return high - low <= WIDEST


def verdict(ratios: Sequence[float], control: Sequence[float]) -> tuple[str, str]:
    """Whether the ratios prove that the change is not slower, and the reason.

    `ratios` are seconds before / seconds after; `control` are seconds before / seconds of a second process that runs
    the same sources, so that anything but 1 comes from the measurement.
    """
    if len(ratios) < FEWEST:
        return CANNOT_BE_TOLD, f"{len(ratios)} rounds are too few: measure at least {FEWEST}"
    low, high = median_interval(control)
    if not low <= 1 <= high:
        return CANNOT_BE_TOLD, f"the control's interval [{low:.3f}, {high:.3f}] does not contain 1: measure again"
    low, high = median_interval(ratios)
    if not is_narrow(ratios):
        return CANNOT_BE_TOLD, f"the interval [{low:.3f}, {high:.3f}] is wider than {WIDEST:g}: measure again"
    middle = median(ratios)
    if middle < LEAST_RATIO:
        return MISSED, f"the median ratio {middle:.3f} is less than {LEAST_RATIO:g}"
    return HOLDS, f"the median ratio {middle:.3f} is at least {LEAST_RATIO:g}"
