"""Attention is score -> align -> read, with any score and any alignment."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, arange, nn

from regard.attention import dot_product, masks
from regard.attention.alignments import (
    ALIGNMENTS,
    Alignment,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Queries,
    Soft,
)
from regard.attention.memory import Attended, Memory
from regard.attention.scores import SCORES, Location, Score
from regard.attention.unpadded import on_real_tokens
from regard.errors import UsageError

Index = slice | Tensor | None


class Attention(nn.Module):
    """One attention over one memory: `Attention(General(64, 128), LocalPredictive(64))`.

    `remember` projects the keys once; each call then asks that memory. Scores that are inner products run with
    soft alignment on torch's fused kernel.
    """

    def __init__(self, score: Score, align: Alignment | None = None):
        super().__init__()
        self.score = score
        self.align = Soft() if align is None else align

    def remember(
        self,
        states: Float[Tensor, "*batch keys key_size"],
        mask: Bool[Tensor, "batch keys"] | None = None,
        values: Float[Tensor, "*batch keys value_size"] | None = None,
    ) -> Memory:
        """What may be looked at. The states are their own values unless others are given."""
        changes_keys = type(self.score).prepare_keys is not Score.prepare_keys
        keys = on_real_tokens(self.score.prepare_keys, mask, states) if changes_keys else states
        return Memory(keys, states if values is None else values, mask)

    def forward(
        self,
        query: Float[Tensor, "*batch queries query_size"],
        memory: Memory,
        places: Int[Tensor, "..."] | None = None,
    ) -> Attended:
        """`places` are the queries' positions in time, for alignments that follow them (0, 1, 2, ...)."""
        allowed = masks.over_queries(memory.mask)
        if self.score.is_inner and self.align.is_fused:
            prepared = self.score.prepare_query(query)
            attended = dot_product.attend(prepared, memory.keys, memory.values, mask=allowed, scale=1.0)
            attended.memory = memory
            return attended
        places = arange(query.shape[-2], device=query.device) if places is None else places
        aligned = self.align(self.score(query, memory), allowed, Queries(query, places), memory)
        weights = aligned.weights

        def weights_of(heads: Index, rows: Index) -> Tensor:
            return weights if rows is None else weights[..., rows, :]

        return Attended(weights @ memory.values, weights_of, memory, aligned.log_probability)


def named_attention(
    score: str,
    align: str,
    query_size: int,
    key_size: int,
    *,
    reach: int = 10,
    max_keys: int = 512,
    expected: float = 0.0,
    reward_weight: float = 1.0,
) -> Attention:
    """The attention a recipe names, such as `general` and `local_p`.

    `reach` is for the local alignments, `max_keys` for the location score, `expected` and
    `reward_weight` for the hard alignment.
    """
    _check(SCORES, "score", score)
    _check(ALIGNMENTS, "alignment", align)
    scores: dict[type, Callable[..., Any]] = {Location: partial(Location, max_keys=max_keys)}
    aligns: dict[type, Callable[..., Any]] = {
        Hard: partial(Hard, expected=expected, reward_weight=reward_weight),
        LocalMonotonic: partial(LocalMonotonic, reach=reach),
        LocalPredictive: partial(LocalPredictive, reach=reach),
    }
    make_score, make_align = SCORES[score], ALIGNMENTS[align]
    return Attention(
        scores.get(make_score, make_score)(query_size, key_size), aligns.get(make_align, make_align)(query_size)
    )


def _check(table: Mapping[str, object], what: str, name: str) -> None:
    if name not in table:
        raise UsageError(f"there is no {what} called {name!r}: choose one of {', '.join(table)}")
