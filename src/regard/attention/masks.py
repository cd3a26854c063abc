"""Where masks are born. A mask is boolean and **True means: may be attended to**.

Masks broadcast against weights of shape [..., queries, keys]. A mask over keys alone has shape [..., keys]; give
it a query axis with `over_queries` before combining it with others.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(lengths: Int[Tensor, "batch"], size: int | None = None) -> Bool[Tensor, "batch keys"]:
    """The first `lengths[b]` keys of row b are real, the rest is padding."""
    size = int(lengths.max()) if size is None else size
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def real_tokens(tokens: Int[Tensor, "*batch length"], pad: int) -> Bool[Tensor, "*batch length"]:
    """True for every token that is not padding."""
    return tokens != pad


def begun(mask: Bool[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """The place before each row's first real token is real too: a start that is spelt like padding.

    In a row without any, the first place is the start.
    """
    start = (mask.long().argmax(-1) - 1).clamp(min=0)
    return mask.scatter(-1, start[:, None], True)


def causal(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "queries keys"]:
    """No query sees the future. Queries are the *last* positions of the keys, as in a growing cache."""
    return window(queries, keys, after=0, device=device)


def window(
    queries: int,
    keys: int,
    before: int | None = None,
    after: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "queries keys"]:
    """Each query sees at most `before` keys to its left and `after` to its right (None: all of them)."""
    distance = positions_of_queries(queries, keys, device)[:, None] - torch.arange(keys, device=device)
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if before is not None:
        mask &= distance <= before
    if after is not None:
        mask &= -distance <= after
    return mask


def positions_of_queries(queries: int, keys: int, device: torch.device | None = None) -> Int[Tensor, "queries"]:
    """Queries that attend to themselves and to what came before stand at the end of the keys."""
    return torch.arange(keys - queries, keys, device=device)


def positions(mask: Bool[Tensor, "*batch length"]) -> Int[Tensor, "*batch length"]:
    """The place of each real token among the real ones: the same wherever the padding stands."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def over_queries(mask: Bool[Tensor, "*batch keys"] | None) -> Bool[Tensor, "*batch 1 keys"] | None:
    """A mask over keys, the same for every query."""
    return None if mask is None else mask.unsqueeze(-2)


def combine(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """What every mask allows; None allows everything."""
    allowed = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else allowed & mask
    return allowed
