"""What an export is worth: the numbers of the exported model beside ours, on the same inputs.

A float32 copy must give the same logits up to rounding, and say the same token by token. A quantised copy cannot: its
error must stay small beside the spread of the logits, and the report says how often its first choice is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-4  # of the largest number there is, or of one if all are smaller
QUANTISATION = 0.2  # root mean square of the error beside the spread of the logits

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """One comparison, in words for people, and whether it came out as it must."""

    what: str
    told: str
    holds: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.told}{'' if self.holds else ' - NOT THE SAME'}"


@dataclass(frozen=True)
class Report:
    """All comparisons of one export; none, if the other side could not be asked, with the reason."""

    findings: tuple[Finding, ...]
    unchecked: str = ""

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def lines(self) -> list[str]:
        return [str(finding) for finding in self.findings] + [f"not compared: {self.unchecked}"] * bool(self.unchecked)


def compared(what: str, ours: Sequence[Numbers], theirs: Sequence[Numbers], quantised: bool = False) -> Finding:
    """Arrays that must be equal up to rounding, or up to quantisation."""
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            return Finding(what, f"shape {list(other.shape)} instead of {list(mine.shape)}", False)
    mine, other = (np.concatenate([np.ravel(part) for part in parts]).astype(np.float64) for parts in (ours, theirs))
    if not np.isfinite(other).all():
        return Finding(what, "some numbers are not finite", False)
    largest = float(np.abs(mine - other).max(initial=0.0))
    told = f"largest difference {largest:.1e} of {mine.size:,} numbers"
    if not quantised:
        allowed = ROUNDING * max(1.0, float(np.abs(mine).max(initial=0.0)))
        return Finding(what, f"{told} (allowed {allowed:.1e})", largest <= allowed)
    error = float(np.sqrt(np.mean((mine - other) ** 2)) / max(float(mine.std()), 1e-12))
    told += f", error {100 * error:.1f} % of their spread (allowed {100 * QUANTISATION:.0f} %)"
    return Finding(what, told + first_choices(ours, theirs), error <= QUANTISATION)


def first_choices(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> str:
    """How often the largest of the logits is the same, where there is more than one to choose from."""
    if ours[0].ndim < 2:
        return ""
    found = np.concatenate([mine.argmax(-1) == other.argmax(-1) for mine, other in zip(ours, theirs, strict=True)])
    return f", the same first choice in {100 * found.mean():.1f} % of {found.size:,} places"


def same(what: str, ours: Sequence[Any], theirs: Sequence[Any], quantised: bool = False) -> Finding:
    """Lists that must be equal one by one; of a quantised model it is only said how many are."""
    equal = [mine == other for mine, other in zip(ours, theirs, strict=True)]
    if all(equal):
        return Finding(what, f"identical in {len(equal)} of {len(equal)} texts")
    number = equal.index(False)
    told = f"identical in {sum(equal)} of {len(equal)} texts"
    if quantised:
        return Finding(what, told)
    return Finding(what, f"{told}; text {number + 1} gives {theirs[number]!r} instead of {ours[number]!r}", False)
