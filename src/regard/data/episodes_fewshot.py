"""N-way K-shot episodes: N classes that nobody named before, K examples of each, and queries to be told apart by them.

An episode is drawn from a seed and a number alone: which classes, which label each of them gets this time, which
pictures, and in which order the examples are shown. With rotations, each class turned by 90, 180 and 270 degrees is a
class of its own, and an episode may hold it beside itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batching import Place
from regard.errors import UsageError

HELD_OUT = {"train": (1707, 3141, 3), "valid": (1707, 3141, 1), "test": (1707, 3141, 2)}  # seeds no training has
TURNS = 4  # quarter turns until a picture is as it was


@dataclass(frozen=True)
class Shape:
    """How large an episode is."""

    ways: int
    shots: int
    queries: int = 1  # of each class

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1), ("queries", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"an episode cannot have {getattr(self, name)} {name}: give at least {least}")

    @property
    def pictures(self) -> int:
        return self.ways * (self.shots + self.queries)


@dataclass(frozen=True, eq=False)
class Episodes:
    """Which pictures are shown: their numbers in the set, how they are turned, and the labels of this episode."""

    examples: NDArray[np.int64]  # [rows, ways * shots]
    labels: NDArray[np.int64]  # of the examples
    queries: NDArray[np.int64]  # [rows, ways * queries]
    answers: NDArray[np.int64]  # of the queries
    example_turns: NDArray[np.int64]  # quarters
    query_turns: NDArray[np.int64]
    number: int = 0  # of the first one

    def __len__(self) -> int:
        return len(self.examples)


class EpisodeDraws:
    """Draws episodes from pictures with these class numbers; a class with too few pictures for one is left out."""

    def __init__(self, classes: NDArray[np.int64], shape: Shape, rotations: bool = False):
        order = np.argsort(classes, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(classes[order])) + 1)
        self.shape, self.turns = shape, TURNS if rotations else 1
        self.members = [group for group in groups if len(group) >= shape.shots + shape.queries]
        if len(self.members) * self.turns < shape.ways:
            raise UsageError(
                f"an episode of {shape.ways} classes with {shape.shots + shape.queries} pictures each cannot be drawn: "
                f"{len(self.members)} of {len(groups) if len(classes) else 0} classes have so many pictures"
            )

    def draw(self, seed: tuple[int, ...], first: int, rows: int) -> Episodes:
        """The episodes with the numbers `first` to `first + rows - 1`; each by itself, whatever their company."""
        drawn = [self._one(np.random.default_rng((*seed, number))) for number in range(first, first + rows)]
        examples, labels, queries, answers, example_turns, query_turns = map(np.stack, zip(*drawn, strict=True))
        return Episodes(examples, labels, queries, answers, example_turns, query_turns, first)

    def _one(self, draw: np.random.Generator) -> Sequence[NDArray[np.int64]]:
        shape = self.shape
        chosen, turns = np.divmod(draw.choice(len(self.members) * self.turns, shape.ways, replace=False), self.turns)
        taken = np.stack(
            [draw.choice(self.members[each], shape.shots + shape.queries, replace=False) for each in chosen]
        )
        labels = np.arange(shape.ways)
        shown = draw.permutation(shape.ways * shape.shots)
        return (
            taken[:, : shape.shots].ravel()[shown],
            labels.repeat(shape.shots)[shown],
            taken[:, shape.shots :].ravel(),
            labels.repeat(shape.queries),
            turns.repeat(shape.shots)[shown],
            turns.repeat(shape.queries),
        )

    def follow(self, rows: int, seed: int, place: Place) -> Iterator[tuple[Episodes, Place]]:
        """Batches without end from `place` on, each with the place that comes after it."""
        number = place.batch
        while True:
            yield self.draw((seed, place.epoch), number * rows, rows), Place(place.epoch, number + 1)
            number += 1


def turned(pixels: Tensor, turns: NDArray[np.int64]) -> Tensor:
    """Square pictures [count, channels, size, size], each turned by so many quarters."""
    pixels = pixels.clone()
    for quarters in range(1, TURNS):
        chosen = torch.from_numpy(turns == quarters).to(pixels.device)
        pixels[chosen] = pixels[chosen].rot90(quarters, (2, 3))
    return pixels
