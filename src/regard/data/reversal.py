"""Say it backwards: the smallest task that needs an alignment. Who has learnt it looks along the anti-diagonal.

Sequences of random symbols and their reversals, drawn from a seed per split: nothing is read, nothing is downloaded.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.data.pairs import Pair
from regard.errors import UsageError

SPLITS = {"train": 0, "valid": 1, "test": 2}


def reversal(
    folder: str | Path, split: str, count: int = 10_000, shortest: int = 3, longest: int = 10, symbols: int = 50
) -> Iterator[Pair]:
    """`count` training pairs, a twentieth of it to validate and to test; gold links run from the end to the start."""
    if split not in SPLITS:
        raise UsageError(f"reversal: unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    for option in (count, shortest, longest, symbols):
        if not isinstance(option, int):
            raise UsageError(f"reversal: {option!r} is not a whole number")
    if not 1 <= shortest <= longest:
        raise UsageError(f"reversal: sequences of {shortest} to {longest} symbols do not exist")
    if symbols < 2 or count < 20:
        raise UsageError(f"reversal: needs at least 2 symbols and 20 pairs, not {symbols} and {count}")
    return _pairs(split, count if split == "train" else count // 20, shortest, longest, symbols)


def _pairs(split: str, count: int, shortest: int, longest: int, symbols: int) -> Iterator[Pair]:
    draw = np.random.default_rng(SPLITS[split])
    lengths = draw.integers(shortest, longest + 1, count)
    said = draw.integers(0, symbols, lengths.sum())
    for start, end in pairwise([0, *lengths.cumsum()]):
        words = [f"w{number}" for number in said[start:end]]
        last = len(words) - 1
        links = tuple((place, last - place) for place in range(len(words)))
        yield Pair(" ".join(words), " ".join(reversed(words)), links)
