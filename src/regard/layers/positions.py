"""Where a token stands, added to what it means.

PE(pos, 2i)     = sin(pos / 10000^(2i / d))
PE(pos, 2i + 1) = cos(pos / 10000^(2i / d))

Marian keeps the same numbers in another order: first all sines, then all cosines.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RegardError, UsageError

READY = 1 << 22  # numbers of a table that is kept


def sinusoids(count: int, size: int) -> Float[Tensor, "count size"]:
    """The first `count` rows of the sinusoidal encoding (Vaswani et al. 2017)."""
    # On the CPU even when a model is only sketched on the meta device: no checkpoint will fill this table.
    position = torch.arange(count, dtype=torch.float64, device="cpu")[:, None]
    pair = torch.arange(0, size, 2, dtype=torch.float64, device="cpu")
    angle = position * torch.exp(-math.log(10000.0) * pair / size)
    table = torch.empty(count, size, dtype=torch.float64, device="cpu")
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : size // 2].cos()
    return table.float()


def sines_then_cosines(count: int, size: int) -> Float[Tensor, "count size"]:
    """The same rows in Marian's order: PE(pos, 0), PE(pos, 2), ..., PE(pos, 1), PE(pos, 3), ..."""
    table = sinusoids(count, size)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


class SinusoidalPositions(nn.Module):
    """A fixed encoding of any length; `max_length` rows, but no more than fit into READY numbers, are kept ready; more
    are made when needed."""

    rows = staticmethod(sinusoids)

    def __init__(self, max_length: int, size: int):
        super().__init__()
        count = min(max_length, READY // max(1, size))
        table = self.rows(count, size) if count else torch.empty(0, size)
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor

    def forward(self, positions: Int[Tensor, "*batch length"]) -> Float[Tensor, "*batch length size"]:
        table = self.table
        needed = int(positions.max()) + 1 if positions.numel() else 0
        if needed > len(table):
            table = self.rows(needed, table.shape[1]).to(table)
        return table[positions]


class HalvedSinusoidalPositions(SinusoidalPositions):
    """Sines in the first half of the row, cosines in the second."""

    rows = staticmethod(sines_then_cosines)


class LearnedPositions(nn.Module):
    """One learnt vector per place, up to `max_length` places."""

    def __init__(self, max_length: int, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, size))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, positions: Int[Tensor, "*batch length"]) -> Float[Tensor, "*batch length size"]:
        needed = int(positions.max()) + 1 if positions.numel() else 0
        if needed > len(self.table):
            raise RegardError(
                f"an input of {needed} tokens is longer than the {len(self.table)} learnt positions: "
                "shorten it, or train with a larger model.max_length or sinusoidal positions"
            )
        return self.table[positions]


POSITIONS: dict[str, type[SinusoidalPositions] | type[LearnedPositions]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "sinusoidal_halves": HalvedSinusoidalPositions,
}


def named_positions(kind: str, max_length: int, size: int) -> nn.Module:
    if kind not in POSITIONS:
        raise UsageError(f"there are no positions called {kind!r}: choose one of {', '.join(POSITIONS)}")
    return POSITIONS[kind](max_length, size)
