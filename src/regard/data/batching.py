"""Batches by token budget: sentences of like length together, as many as the budget holds, shuffled every epoch.

The order depends on (seed, epoch) alone, so where a run stands in its data is two numbers: epoch and batch. The same
plan serves any number of workers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POOL_BATCHES = 100  # how many batches' worth of sentences are sorted together: mixes content, keeps padding small


@dataclass(frozen=True)
class Place:
    """Where in the data a run stands: the batch it will read next."""

    epoch: int = 0
    batch: int = 0


class TokenBatches:
    """Plans each epoch's batches over items with given lengths.

    `lengths` [items] or [items, sides] counts tokens; a batch's size is its number of items times its longest side,
    at most `budget` (an item that is longer than the budget makes a batch of its own).
    """

    def __init__(self, lengths: NDArray[np.integer], budget: int, seed: int):
        self.longest = lengths if lengths.ndim == 1 else lengths.max(axis=1)
        # Sorting by both sides keeps the padding of either small.
        self.sort_keys = (lengths,) if lengths.ndim == 1 else tuple(lengths.T)
        self.budget, self.seed = budget, seed

    def epoch(self, number: int) -> list[NDArray[np.int64]]:
        """The batches of one epoch, each an array of item numbers."""
        draw = np.random.default_rng((self.seed, number))
        order = draw.permutation(len(self.longest))
        mean = max(1.0, float(self.longest.mean()))
        pool = max(1, round(POOL_BATCHES * self.budget / mean))
        batches: list[NDArray[np.int64]] = []
        for start in range(0, len(order), pool):
            items = order[start : start + pool]
            items = items[np.lexsort([keys[items] for keys in self.sort_keys])]
            batches += fill(items, self.longest[items], self.budget)
        return [batches[index] for index in draw.permutation(len(batches))]

    def follow(self, place: Place) -> Iterator[tuple[NDArray[np.int64], Place]]:
        """Batches without end from `place` on, each with the place that comes after it."""
        epoch, batch = place.epoch, place.batch
        while True:
            plan = self.epoch(epoch)
            for index in range(batch, len(plan)):
                after = Place(epoch, index + 1) if index + 1 < len(plan) else Place(epoch + 1, 0)
                yield plan[index], after
            epoch, batch = epoch + 1, 0


def fill(items: NDArray[np.int64], lengths: NDArray[np.integer], budget: int) -> list[NDArray[np.int64]]:
    """Cut `items`, in their order, into batches of at most `budget` padded tokens."""
    batches, start, longest = [], 0, 0
    for index, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if index > start and longest * (index + 1 - start) > budget:
            batches.append(items[start:index])
            start, longest = index, length
    if start < len(items):
        batches.append(items[start:])
    return batches


def in_order_of_length(lengths: Sequence[int], budget: int) -> list[NDArray[np.int64]]:
    """Every item once, longest first, in batches of at most `budget` padded tokens: for decoding and evaluation."""
    sizes = np.asarray(lengths, dtype=np.int64)
    items = np.argsort(-sizes, kind="stable")
    return fill(items, sizes[items], budget)
