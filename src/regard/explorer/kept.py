"""A forward pass that was kept: any part of its attention is computed when somebody looks at it.

    with keep(model) as kept:
        model(tokens)
    kept["layers.0.self_attention"].tile(head=3, level=2, row=0, column=1)

48 layers of 25 heads over 4,000 tokens have 19 billion weights: nobody can store or send them, and nobody can look at
them all. Queries and keys are small. They stay, inside the `Attended` values the attentions returned, and give back
exact weights for the head and the rows that are asked for: a row, a tile of 256 x 256 cells, a thumbnail.

A tile of level n shows 2^n x 2^n weights as one cell, by their maximum: a mean would wash out the spikes one looks for.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention
from regard.attention.memory import Attended, WeightsOf
from regard.attention.recording import choose_attentions
from regard.errors import UsageError

TILE = 256  # cells of a side
THUMBNAIL = 32
SAMPLED_ROWS = 64  # of longer inputs, a thumbnail and its statistics read this many, evenly spread
AT_ONCE = 1 << 22  # weights computed at once: 16 MB


@dataclass(frozen=True)
class Call:
    """One call of an attention: how many queries and keys it had, and how to have their weights again."""

    queries: int
    keys: int
    weights_of: WeightsOf


@dataclass
class KeptAttention:
    """Everything one attention module did in the pass, as one matrix per head; the batch has one row."""

    name: str
    heads: int
    has_heads: bool
    calls: list[Call] = field(default_factory=list)

    @property
    def queries(self) -> int:
        return sum(call.queries for call in self.calls)

    @property
    def keys(self) -> int:
        return max(call.keys for call in self.calls)

    def rows(self, queries: range | list[int], head: int | None = None) -> Float[ndarray, "heads rows keys"]:
        """The weights of chosen queries, of one head or of all; keys that a row could not know yet are zero."""
        if head is not None and not 0 <= head < self.heads:
            raise UsageError(f"{self.name} has {self.heads} heads, so there is no head {head}")
        wanted = torch.as_tensor(list(queries), dtype=torch.long)
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.queries:
            raise UsageError(f"{self.name} has {self.queries} queries, so there is no query {int(wanted.max())}")
        weights = torch.zeros(self.heads if head is None else 1, len(wanted), self.keys)
        before = 0
        for call in self.calls:
            own = ((wanted >= before) & (wanted < before + call.queries)).nonzero().flatten()
            if len(own):
                weights[:, own, : call.keys] = self._of(call, wanted[own] - before, head)
            before += call.queries
        return weights.numpy()

    def _of(self, call: Call, rows: Tensor, head: int | None) -> Float[Tensor, "heads rows keys"]:
        heads = torch.tensor([head]) if self.has_heads and head is not None else None
        with torch.inference_mode():
            weights = call.weights_of(heads, rows).float().cpu()
        return weights.reshape(self.heads if head is None else 1, len(rows), call.keys)

    def tile(self, head: int, level: int, row: int, column: int, apart: bool = False) -> UInt8[ndarray, "rows columns"]:
        """Square roots of weights, 255 for 1, of the cells [row * 256, ...) x [column * 256, ...) of a level; if the
        first key stands apart, it is nothing here."""
        side = 1 << max(0, level)
        rows = range(row * TILE * side, min(self.queries, (row + 1) * TILE * side))
        columns = slice(column * TILE * side, min(self.keys, (column + 1) * TILE * side))
        if level < 0 or not rows or columns.start >= self.keys or row < 0 or column < 0:
            raise UsageError(f"{self.name} is {self.queries} x {self.keys}: level {level} has no tile {row}, {column}")
        return as_bytes(self.coarse(head, side, rows, columns, apart))

    def coarse(
        self, head: int, side: int, rows: range, columns: slice = slice(None), apart: bool = False
    ) -> Float[ndarray, "rows columns"]:
        """The largest of every `side` x `side` weights of one head."""
        return np.concatenate(
            [pooled(part[:, :, columns], side, side)[0] for part in self._in_parts(head, rows, side, apart)]
        )

    def margins(
        self, head: int
    ) -> tuple[Float[ndarray, " queries"], Float[ndarray, " queries"], Float[ndarray, " keys"]]:
        """What each query pays to the first key, what it pays in all, and what each key receives in all."""
        first, paid, received = [], [], np.zeros(self.keys, dtype=np.float32)
        for (part,) in self._in_parts(head, range(self.queries)):
            first.append(part[:, 0])
            paid.append(part.sum(-1))
            received += part.sum(0)
        return np.concatenate(first), np.concatenate(paid), received

    def _in_parts(
        self, head: int, rows: range, side: int = 1, apart: bool = False
    ) -> Iterator[Float[ndarray, "1 rows keys"]]:
        """Rows of one head, whole blocks of `side`, as many as may be computed at once."""
        at_once = side * max(1, AT_ONCE // (self.keys * side))
        for start in range(0, len(rows), at_once):
            part = self.rows(rows[start : start + at_once], head)
            if apart:
                part[:, :, 0] = 0
            yield part

    def thumbnails(self) -> tuple[UInt8[ndarray, "heads rows columns"], dict[str, list[float]], int]:
        """A small picture of every head, what can be said of each in a number, and how many rows were read."""
        step = max(1, -(-self.queries // SAMPLED_ROWS)) if self.queries > 2 * SAMPLED_ROWS else 1
        chosen = list(range(0, self.queries, step))
        weights = self.rows(chosen)
        small = pooled(weights, -(-len(chosen) // THUMBNAIL), -(-self.keys // THUMBNAIL))
        return as_bytes(small), statistics(weights, np.array(chosen)), len(chosen)


class Kept(Mapping[str, KeptAttention]):
    """The attentions of a pass by name, in the order of the model's definition."""

    def __init__(self, attentions: dict[str, KeptAttention]):
        self._attentions = attentions

    def __getitem__(self, name: str) -> KeptAttention:
        if name not in self._attentions:
            raise UsageError(f"there is no attention called {name!r}; there are: {', '.join(self)}")
        return self._attentions[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, each in self._attentions.items() if each.calls)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@contextmanager
def keep(model: nn.Module, layers: Any = None) -> Iterator[Kept]:
    """Keep what the attentions of a model return inside the `with` block, for a batch of one."""
    chosen = choose_attentions(model, layers)
    kept = {
        name: KeptAttention(name, getattr(module, "heads", 1), isinstance(module, MultiHeadAttention))
        for name, module in chosen
    }
    handles = [module.register_forward_hook(_keeper(kept[name])) for name, module in chosen]
    try:
        yield Kept(kept)
    finally:
        for handle in handles:
            handle.remove()


def _keeper(kept: KeptAttention) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Attended) -> None:
        if output.context.dim() == 3 and output.context.shape[0] != 1:
            raise UsageError("one text is kept at a time: give a batch of one")
        with torch.inference_mode():
            keys = output.weights_of(None, torch.tensor([0])).shape[-1] if output.memory is None else len(output.memory)
        kept.calls.append(Call(output.context.shape[-2], keys, output.weights_of))

    return hook


def pooled(weights: Float[ndarray, "heads rows columns"], tall: int, wide: int) -> Float[ndarray, "heads r c"]:
    """The maximum of every block of `tall` x `wide`; blocks at the edges may be smaller."""
    if tall == wide == 1:
        return weights
    tall, wide = min(tall, weights.shape[1]), min(wide, weights.shape[2])
    return F.max_pool2d(torch.from_numpy(weights), (tall, wide), ceil_mode=True).numpy()


def as_bytes(weights: Float[ndarray, "..."]) -> UInt8[ndarray, "..."]:
    """Square roots in 255 steps: small weights keep their differences."""
    return np.rint(np.sqrt(np.clip(weights, 0, 1)) * 255).astype(np.uint8)


def statistics(weights: Float[ndarray, "heads rows keys"], queries: ndarray) -> dict[str, list[float]]:
    """Per head, mean over rows: entropy (nats), the share of the first key and of the key before, distance."""
    keys = np.arange(weights.shape[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(weights > 0, -weights * np.log(weights), 0.0)
    before = np.clip(queries - 1, 0, None)
    far = np.abs(keys[None, :] - queries[:, None])
    numbers = {
        "entropy": surprise.sum(-1).mean(-1),
        "first": weights[:, :, 0].mean(-1),
        "previous": np.take_along_axis(weights, np.minimum(before, len(keys) - 1)[None, :, None], -1)[..., 0].mean(-1),
        "distance": (weights * far).sum(-1).mean(-1),
    }
    return {name: [round(float(each), 6) for each in values] for name, values in numbers.items()}
