"""Scaled dot-product attention, twice: the fused kernel that reads, and the exact weights it read with.

    context = softmax(q k^T scale) v

`fused` is what models run. `exact_weights` recomputes, from the same queries and keys and only for the heads and
rows somebody asked for, the weights the kernel never shows; it works in chunks of rows, so the last row of a very
long input costs one row. With a `window` a query sees only keys that many places away or nearer, and the kernel gets
only those: time and memory grow with the length, not with its square.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention import masks
from regard.attention.alignments import masked_softmax
from regard.attention.memory import Attended
from regard.errors import RegardError
from regard.kernels import ops

Allowed = Bool[Tensor, "..."] | None  # broadcasts to [..., queries, keys]
Index = slice | Tensor | None

CHUNK_ELEMENTS = 1 << 22  # weights computed at once when somebody looks: 16 MB of fp32
WINDOW_QUERIES = 256  # that share the keys between the first one's window and the last one's


def attend(
    query: Float[Tensor, "*batch queries size"],
    keys: Float[Tensor, "*batch keys size"],
    values: Float[Tensor, "*batch keys value_size"],
    *,
    mask: Allowed = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    keep: bool = False,
) -> Attended:
    """Attention over plain tensors [..., length, size]; `mask` broadcasts to [..., queries, keys].

    `causal` hides the future, `window` what is further away than that; both count queries as the last of the keys.
    `scale` is 1 / sqrt(size) unless given. `keep` says that all weights will be asked for: a kernel that has them at
    hand then does not let them go.
    """
    if keys.shape[-2] != values.shape[-2]:  # torch's kernel does not check it, and reads beyond the values
        raise RegardError(f"{keys.shape[-2]} keys have {values.shape[-2]} values: give as many values as keys")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if mask is not None and mask.dim() == 1:
        mask = masks.over_queries(mask)
    if keep and window is None:
        found = ops.attention_with_weights(query, keys, values, mask, causal, scale)
        if found is not None:
            return Attended(found[0], _Weights(found[1]))
    if window is None:
        context = fused(query, keys, values, allowed=mask, causal=causal, scale=scale)
    else:
        context = windowed(query, keys, values, allowed=mask, causal=causal, window=window, scale=scale)
    return Attended(context, ExactWeights(query, keys, mask, causal, window, scale))


@dataclass(frozen=True, eq=False)
class ExactWeights:
    """What was asked, and of which keys: enough to have any of the weights again."""

    query: Float[Tensor, "*batch queries size"]
    keys: Float[Tensor, "*batch keys size"]
    allowed: Allowed
    causal: bool
    window: int | None
    scale: float

    def __call__(self, heads: Index, rows: Index) -> Tensor:
        return exact_weights(
            self.query,
            self.keys,
            allowed=self.allowed,
            causal=self.causal,
            window=self.window,
            scale=self.scale,
            heads=heads,
            rows=rows,
        )

    def compact(self) -> "ExactWeights":
        """For keeping: queries and keys of their own, where they were part of a larger tensor with the values."""
        return replace(self, query=_own(self.query), keys=_own(self.keys))


def _own(part: Tensor) -> Tensor:
    is_all = part.untyped_storage().nbytes() == part.nbytes
    return part if is_all else part.clone(memory_format=torch.contiguous_format)


def windowed(
    query: Float[Tensor, "*batch queries size"],
    keys: Float[Tensor, "*batch keys size"],
    values: Float[Tensor, "*batch keys value_size"],
    *,
    allowed: Allowed,
    causal: bool,
    window: int,
    scale: float,
) -> Float[Tensor, "*batch queries value_size"]:
    """The context of some queries after the other, each time over the keys that any of them may see."""
    queries, count = query.shape[-2], keys.shape[-2]
    allowed = None if allowed is None else allowed.expand(*allowed.shape[:-1], count)
    key_parts, value_parts = keys.split(WINDOW_QUERIES, dim=-2), values.split(WINDOW_QUERIES, dim=-2)
    pieces = []
    for number, part in enumerate(query.split(WINDOW_QUERIES, dim=-2)):
        rows = slice(number * WINDOW_QUERIES, number * WINDOW_QUERIES + part.shape[-2])
        places = torch.arange(rows.start, rows.stop, device=query.device) + count - queries
        before, after = rows.start + count - queries - window, rows.stop + count - queries + (0 if causal else window)
        near = slice(max(0, before), max(0, before, min(count, after)))
        visible = masks.combine(
            None if allowed is None else allowed[..., rows if allowed.shape[-2] > 1 else slice(None), near],
            in_sight(places, torch.arange(near.start, near.stop, device=query.device), causal, window),
        )
        seen = _stretch(key_parts, near), _stretch(value_parts, near)
        pieces.append(fused(part, *seen, allowed=visible, causal=False, scale=scale))
    return torch.cat(pieces, dim=-2)


def _stretch(parts: Sequence[Tensor], near: slice) -> Float[Tensor, "*batch keys size"]:
    """Some neighbours, of parts that were cut once: the gradient of a slice of the whole would be as long as the whole,
    and there are as many slices as windows."""
    first, last = near.start // WINDOW_QUERIES, -(-near.stop // WINDOW_QUERIES)
    some = parts[first : max(last, first + 1)]
    start = first * WINDOW_QUERIES
    return torch.cat(list(some), dim=-2)[..., near.start - start : near.stop - start, :]


def fused(
    query: Float[Tensor, "*batch queries size"],
    keys: Float[Tensor, "*batch keys size"],
    values: Float[Tensor, "*batch keys value_size"],
    *,
    allowed: Allowed,
    causal: bool,
    scale: float,
) -> Float[Tensor, "*batch queries value_size"]:
    """The context by torch's fused kernel, or by ours. A query that may attend to nothing reads zeros."""
    found = ops.attention(query, keys, values, allowed, causal, scale)
    if found is not None:
        return found
    square = query.shape[-2] == keys.shape[-2]
    if causal and allowed is None and square:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, scale=scale)
    if causal:
        allowed = masks.combine(allowed, causal_rows(query, keys))
    if allowed is None:
        return F.scaled_dot_product_attention(query, keys, values, scale=scale)
    # Kernels differ in what a fully masked row gives (zeros, a mean, NaN), so no kernel ever sees one.
    has_any = allowed.any(-1, keepdim=True)
    if ops.can_look_at(has_any) and bool(has_any.all()):  # the usual case, worth the question where nobody waits for it
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=allowed, scale=scale)
    context = F.scaled_dot_product_attention(query, keys, values, attn_mask=allowed | ~has_any, scale=scale)
    return context.masked_fill(~has_any, 0.0)


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights that a kernel has returned with the context."""

    weights: Float[Tensor, "batch heads queries keys"]

    def __call__(self, heads: Index, rows: Index) -> Tensor:
        chosen = self.weights if heads is None else self.weights[:, heads]
        return chosen if rows is None else chosen[:, :, rows]


def causal_rows(query: Tensor, keys: Tensor) -> Bool[Tensor, "queries keys"] | None:
    """The causal mask; a single query at the end sees everything."""
    queries, count = query.shape[-2], keys.shape[-2]
    return None if queries == 1 else masks.causal(queries, count, query.device)


def in_sight(
    places: Int[Tensor, "queries"], keys: Int[Tensor, "keys"], causal: bool, window: int | None
) -> Bool[Tensor, "queries keys"]:
    """Which keys the queries at these places may see, by the places of both alone."""
    distance = places[:, None] - keys
    visible = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    return visible if window is None else visible & (distance.abs() <= window)


def exact_weights(
    query: Float[Tensor, "*batch queries size"],
    keys: Float[Tensor, "*batch keys size"],
    *,
    allowed: Allowed,
    causal: bool,
    window: int | None = None,
    scale: float,
    heads: Index,
    rows: Index,
) -> Float[Tensor, "..."]:
    """softmax(q k^T scale) for the chosen heads (axis -3) and query rows (axis -2), chunk by chunk."""
    if heads is not None:
        query, keys = query[..., heads, :, :], keys[..., heads, :, :]
        if allowed is not None and allowed.dim() >= 3 and allowed.shape[-3] > 1:
            allowed = allowed[..., heads, :, :]
    chosen = torch.arange(query.shape[-2], device=query.device)
    chosen = chosen if rows is None else chosen[rows]
    batch = torch.broadcast_shapes(query.shape[:-2], keys.shape[:-2])
    every_key = torch.arange(keys.shape[-2], device=query.device)
    places = masks.positions_of_queries(query.shape[-2], keys.shape[-2], query.device)
    at_once = max(1, CHUNK_ELEMENTS // max(1, math.prod(batch) * keys.shape[-2]))

    def weigh(part: Int[Tensor, "rows"]) -> Tensor:
        visible = masks.combine(
            allowed if allowed is None or allowed.shape[-2] == 1 else allowed[..., part, :],
            in_sight(places[part], every_key, causal, window) if causal or window is not None else None,
        )
        return masked_softmax((query[..., part, :] * scale) @ keys.mT, visible)

    if len(chosen) <= at_once:
        return weigh(chosen)
    weights = query.new_empty(*batch, len(chosen), keys.shape[-2])
    for start in range(0, len(chosen), at_once):
        weights[..., start : start + at_once, :] = weigh(chosen[start : start + at_once])
    return weights
