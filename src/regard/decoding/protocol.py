"""What every decoder offers to every search, and how searches move its state around."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Decoder(Protocol):
    """Encode once, then ask for one token after the other.

    The state is a nest (dataclasses, tuples, lists, None) of batch-first tensors, so that a search can drop, copy
    and reorder its rows without knowing what is inside.
    """

    def start(self, source: Int[Tensor, "batch length"]) -> Any: ...

    def step(self, tokens: Int[Tensor, "batch"], state: Any) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Logits of the token after `tokens`, and the state in which those are known."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens a search must know."""

    start: int
    end: int
    never: Sequence[int] = ()  # tokens no sentence contains: padding, the start itself


@dataclass(frozen=True)
class Hypothesis:
    """A sentence a search came up with."""

    tokens: list[int]  # without start and end
    log_probability: float  # of the tokens and, if finished, the end
    score: float  # log_probability / length ** length_penalty, what hypotheses are ranked by
    finished: bool  # False when the limit cut it


def log_probabilities(
    logits: Float[Tensor, "*rows vocabulary"], never: Int[Tensor, "forbidden"], renormalize: bool
) -> Float[Tensor, "*rows vocabulary"]:
    """Of each token to come next; those that `never` come may leave their probability to the others."""
    log_p = logits.float().log_softmax(-1)
    log_p[..., never] = -torch.inf
    return log_p.log_softmax(-1) if renormalize else log_p


def take_rows(state: Any, rows: Int[Tensor, "rows"]) -> Any:
    """The same state for the given rows, in their order, repeated as they are."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{field.name: take_rows(getattr(state, field.name), rows) for field in fields(state)})
    if isinstance(state, tuple) and hasattr(state, "_fields"):  # a named tuple takes its parts one by one
        return type(state)(*(take_rows(part, rows) for part in state))
    if isinstance(state, tuple | list):
        return type(state)(take_rows(part, rows) for part in state)
    raise TypeError(f"a decoder state may not hold a {type(state).__name__}")
