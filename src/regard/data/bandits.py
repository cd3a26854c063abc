"""Bernoulli bandits: arms that pay with a chance of their own, drawn uniformly, and the luck of every pull.

Nothing is stored: bandits are drawn from a seed and a number when they are needed. Their luck is drawn with them: arm
`a` pays at pull `t` if luck[t, a] < chance[a], whoever plays. So players can be compared on the same arms with the
same luck.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.batching import Place
from regard.data.parts import Divisible
from regard.errors import UsageError

HELD_OUT = {"valid": (1707, 3141, 1), "test": (1707, 3141, 2)}  # seeds no training has: those are pairs of numbers


@dataclass(frozen=True, eq=False)
class Bandits(Divisible):
    """Some bandits with as many arms and pulls each."""

    chances: NDArray[np.float32]  # [rows, arms]
    luck: NDArray[np.float32]  # [rows, pulls, arms]
    number: int = 0  # of the batch, for whoever wants to see it again
    among: tuple["Bandits", slice] | None = None  # the batch these are a part of, and which rows of it they are

    shared = ("number", "among")

    def part(self, rows: slice) -> "Bandits":
        """Some bandits that remember the others: how well a game went is judged by all games of a batch."""
        return replace(super().part(rows), among=(self, rows))

    @property
    def arms(self) -> int:
        return self.chances.shape[1]

    @property
    def pulls(self) -> int:
        return self.luck.shape[1]

    @property
    def paid(self) -> NDArray[np.bool_]:
        """[rows, pulls, arms]: what each arm would pay at each pull."""
        return self.luck < self.chances[:, None]


def draw_bandits(seed: tuple[int, ...], rows: int, arms: int, pulls: int) -> Bandits:
    draw = np.random.default_rng(seed)
    chances = draw.random((rows, arms), dtype=np.float32)
    return Bandits(chances, draw.random((rows, pulls, arms), dtype=np.float32), seed[-1])


def follow(rows: int, arms: int, pulls: int, seed: int, place: Place) -> Iterator[tuple[Bandits, Place]]:
    """Batches without end from `place` on, each with the place that comes after it."""
    number = place.batch
    while True:
        yield draw_bandits((seed, number), rows, arms, pulls), Place(0, number + 1)
        number += 1


def held_out(split: str, rows: int, arms: int, pulls: int) -> Bandits:
    """The bandits of a split that is never trained on: always the same ones."""
    if split not in HELD_OUT:
        raise UsageError(f"there is no split called {split!r}: bandits are drawn for {' and '.join(HELD_OUT)}")
    return draw_bandits((*HELD_OUT[split], arms, pulls), rows, arms, pulls)
