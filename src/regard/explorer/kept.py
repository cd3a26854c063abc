"""A forward pass that was kept: any part of its attention is computed when somebody looks at it.

    with keep(model) as kept:
        model(tokens)
    kept["layers.0.self_attention"].tile(head=3, level=2, row=0, column=1)

48 layers of 25 heads over 4,000 tokens have 19 billion weights: nobody can store or send them, and nobody can look at
them all. Queries and keys are small. They stay, inside the `Attended` values the attentions returned, and give back
exact weights for the head and the rows that are asked for: a row, a tile of 256 x 256 cells, a thumbnail.

A tile of level n shows 2^n x 2^n weights as one cell, by their maximum: a mean would wash out the spikes one looks for.
A head is read once (`Survey`), from its first row to its last, for its margins and for every level at which the whole
of it is a small picture; of the finer levels, one band of tiles at a time is. What was read last stays.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
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
from regard.attention.dot_product import ExactWeights
from regard.attention.memory import Attended, WeightsOf
from regard.attention.recording import choose_attentions
from regard.errors import UsageError

TILE = 256  # cells of a side
THUMBNAIL = 32
SAMPLED_ROWS = 64  # of longer inputs, a thumbnail and its statistics read this many, evenly spread
AT_ONCE = 1 << 22  # weights computed at once: 16 MB
WHOLE = 1024  # cells of a side up to which a level is kept as a whole
MOST_READ = 32  # surveys and bands that stay, of all attentions together: at most 1.4 MB each


@dataclass(frozen=True)
class Call:
    """One call of an attention: how many queries and keys it had, and how to have their weights again."""

    queries: int
    keys: int
    weights_of: WeightsOf


@dataclass(frozen=True, eq=False)
class Cells:
    """The largest of every block of weights, as bytes; and the first column once more, as if the first key got none."""

    every: UInt8[ndarray, "rows columns"]
    rest: UInt8[ndarray, " rows"]

    @classmethod
    def of(cls, weights: Float[ndarray, "1 rows keys"], side: int) -> "Cells":
        first = weights[:, :, :side].copy()
        first[:, :, 0] = 0
        return cls(as_bytes(pooled(weights, side, side)[0]), as_bytes(pooled(first, side, side)[0, :, 0]))

    @classmethod
    def below_each_other(cls, parts: list["Cells"]) -> "Cells":
        return cls(np.concatenate([part.every for part in parts]), np.concatenate([part.rest for part in parts]))

    def halved(self) -> "Cells":
        """The level above: a cell is the largest of two times two."""
        rest = np.maximum(self.rest, self.every[:, 1]) if self.every.shape[1] > 1 else self.rest
        return Cells(halves(halves(self.every, 0), 1), halves(rest, 0))

    def shown(self, apart: bool) -> UInt8[ndarray, "rows columns"]:
        if not apart:
            return self.every
        cells = self.every.copy()
        cells[:, 0] = self.rest
        return cells

    @property
    def bytes(self) -> int:
        return self.every.nbytes + self.rest.nbytes


@dataclass(frozen=True, eq=False)
class Survey:
    """One head, read from its first row to its last."""

    first: Float[ndarray, " queries"]  # what each query pays to the first key,
    paid: Float[ndarray, " queries"]  # and in all
    received: Float[ndarray, " keys"]  # what each key receives in all
    levels: tuple[Cells, ...]  # from the finest that is kept as a whole to a single cell

    @property
    def bytes(self) -> int:
        margins = self.first.nbytes + self.paid.nbytes + self.received.nbytes
        return margins + sum(cells.bytes for cells in self.levels)


class Reads:
    """What was read last, so that it is not read again; one thread asks."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self.bytes = 0

    def once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
            self.bytes += self._made[name].bytes
        self._made.move_to_end(name)
        while len(self._made) > MOST_READ:
            _, oldest = self._made.popitem(last=False)
            self.bytes -= oldest.bytes
        return self._made[name]

    def clear(self) -> None:
        self._made.clear()
        self.bytes = 0


@dataclass
class KeptAttention:
    """Everything one attention module did in the pass, as one matrix per head; the batch has one row."""

    name: str
    heads: int
    has_heads: bool
    calls: list[Call] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads, repr=False)  # shared by the attentions of a pass

    @property
    def queries(self) -> int:
        return sum(call.queries for call in self.calls)

    @property
    def keys(self) -> int:
        return max(call.keys for call in self.calls)

    def rows(self, queries: range | list[int], head: int | None = None) -> Float[ndarray, "heads rows keys"]:
        """The weights of chosen queries, of one head or of all; keys that a row could not know yet are zero."""
        if head is not None and not 0 <= head < self.heads:
            raise UsageError(f"there is no head {head} in {self.name}: it has {self.heads}, counted from 0")
        wanted = torch.as_tensor(list(queries), dtype=torch.long)
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.queries:
            raise UsageError(
                f"there is no query {int(wanted.max())} in {self.name}: it has {self.queries}, counted from 0"
            )
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
        there = 0 <= row * TILE * side < self.queries and 0 <= column * TILE * side < self.keys
        if level < 0 or not there:
            raise UsageError(f"{self.name} is {self.queries} x {self.keys}: level {level} has no tile {row}, {column}")
        columns = slice(column * TILE, (column + 1) * TILE)
        if level < self.finest:
            return self._band(head, level, row).shown(apart)[:, columns]
        levels = self.survey(head).levels
        cells = levels[min(level - self.finest, len(levels) - 1)]
        return cells.shown(apart)[row * TILE : (row + 1) * TILE, columns]

    @property
    def finest(self) -> int:
        """The finest level that is kept as a whole: its sides have at most 1,024 cells."""
        return ((max(self.queries, self.keys) - 1) // WHOLE).bit_length()

    def survey(self, head: int) -> Survey:
        return self.reads.once((self.name, head), lambda: self._surveyed(head))

    def _surveyed(self, head: int) -> Survey:
        side = 1 << self.finest
        first, paid, received, parts = [], [], np.zeros(self.keys, dtype=np.float32), []
        for part in self._in_parts(head, range(self.queries), side):
            first.append(part[0, :, 0].copy())  # or all of the part would stay with it
            paid.append(part[0].sum(-1))
            received += part[0].sum(0)
            parts.append(Cells.of(part, side))
        levels = [Cells.below_each_other(parts)]
        while levels[-1].every.size > 1:
            levels.append(levels[-1].halved())
        return Survey(np.concatenate(first), np.concatenate(paid), received, tuple(levels))

    def _band(self, head: int, level: int, row: int) -> Cells:
        """All tiles of a level that are beside each other: whoever wants one has computed the others."""
        side = 1 << level
        rows = range(row * TILE * side, min(self.queries, (row + 1) * TILE * side))

        def read() -> Cells:
            return Cells.below_each_other([Cells.of(part, side) for part in self._in_parts(head, rows, side)])

        return self.reads.once((self.name, head, level, row), read)

    def coarse(self, head: int, side: int) -> Float[ndarray, "rows columns"]:
        """The largest of every `side` x `side` weights of one head, as they are."""
        parts = self._in_parts(head, range(self.queries), side)
        return np.concatenate([pooled(part, side, side)[0] for part in parts])

    def _in_parts(self, head: int, rows: range, side: int) -> Iterator[Float[ndarray, "1 rows keys"]]:
        """Rows of one head, whole blocks of `side`, as many as may be computed at once."""
        at_once = side * max(1, AT_ONCE // (self.keys * side))
        for start in range(0, len(rows), at_once):
            yield self.rows(rows[start : start + at_once], head)

    def thumbnails(self) -> tuple[UInt8[ndarray, "heads rows columns"], dict[str, list[float]], int]:
        """A small picture of every head, what can be said of each in a number, and how many rows were read."""
        step = max(1, -(-self.queries // SAMPLED_ROWS)) if self.queries > 2 * SAMPLED_ROWS else 1
        chosen = list(range(0, self.queries, step))
        weights = self.rows(chosen)
        small = pooled(weights, -(-len(chosen) // THUMBNAIL), -(-self.keys // THUMBNAIL))
        return as_bytes(small), statistics(weights, np.array(chosen)), len(chosen)


class Kept(Mapping[str, KeptAttention]):
    """The attentions of a pass by name, in the order of the model's definition."""

    def __init__(self, attentions: dict[str, KeptAttention], reads: Reads):
        self._attentions, self.reads = attentions, reads

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
    chosen, reads = choose_attentions(model, layers), Reads()
    kept = {
        name: KeptAttention(name, getattr(module, "heads", 1), isinstance(module, MultiHeadAttention), reads=reads)
        for name, module in chosen
    }
    handles = [module.register_forward_hook(_keeper(kept[name])) for name, module in chosen]
    try:
        yield Kept(kept, reads)
    finally:
        for handle in handles:
            handle.remove()


def _keeper(kept: KeptAttention) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Attended) -> None:
        if output.context.dim() == 3 and output.context.shape[0] != 1:
            raise UsageError("one text is kept at a time: give a batch of one")
        with torch.inference_mode():
            keys = output.weights_of(None, torch.tensor([0])).shape[-1] if output.memory is None else len(output.memory)
        kept.calls.append(Call(queries := output.context.shape[-2], keys, compact(output.weights_of, queries)))

    return hook


def compact(weights_of: WeightsOf, queries: int) -> WeightsOf:
    """Without the values. A single query is a step of many, which share their keys."""
    return weights_of.compact() if isinstance(weights_of, ExactWeights) and queries > 1 else weights_of


def by_token(recorded: Float[Tensor, "heads tokens places"], span: int) -> WeightsOf:
    """The weights of an attention that looks `span` tokens back: recorded by places in that window, asked for by the
    token looked at."""
    tokens = recorded.shape[1]

    def weights_of(heads: slice | Tensor | None, rows: slice | Tensor | None) -> Tensor:
        chosen = torch.arange(tokens) if rows is None else torch.arange(tokens)[rows]
        weights = recorded.new_zeros(len(recorded), len(chosen), tokens)
        for place, row in enumerate(chosen.tolist()):
            first = max(0, row - span)
            weights[:, place, first:row] = recorded[:, row, : row - first]
        return weights if heads is None else weights[heads]

    return weights_of


def pooled(weights: Float[ndarray, "heads rows columns"], tall: int, wide: int) -> Float[ndarray, "heads r c"]:
    """The maximum of every block of `tall` x `wide`; blocks at the edges may be smaller."""
    if tall == wide == 1:
        return weights
    tall, wide = min(tall, weights.shape[1]), min(wide, weights.shape[2])
    return F.max_pool2d(torch.from_numpy(weights), (tall, wide), ceil_mode=True).numpy()


def halves(cells: UInt8[ndarray, "..."], axis: int) -> UInt8[ndarray, "..."]:
    """The larger of every two neighbours along an axis; the last may be alone."""
    return np.maximum.reduceat(cells, range(0, cells.shape[axis], 2), axis)


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
