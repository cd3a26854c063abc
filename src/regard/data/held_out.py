"""Splits out of one table: one row in twenty for validation, one in twenty for the test, the others to learn from."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from regard.errors import UsageError

Row = TypeVar("Row")
ROUND = 20
TURNS = {ROUND - 1: "valid", ROUND // 2 - 1: "test"}  # of every round of rows


def held_out(rows: Iterable[Row], split: str) -> Iterator[Row]:
    """The rows of a split. Which they are depends on their place alone."""
    count = 0
    for count, row in enumerate(rows, 1):
        if TURNS.get((count - 1) % ROUND, "train") == split:
            yield row
    if count < ROUND:
        raise UsageError(f"{count} rows are too few to take some out for validation and test: give data.valid")
