"""What is done to every token by itself need not be done to padding.

In a batch of unlike sentences a quarter of all places may be padding. While a model only reads, the real tokens are
laid one behind the other for the large products, and their results put back to where they were, zeros between them.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

WORTHWHILE = 0.95  # part of the places that are real; above it, laying them together costs what it saves

States = Float[Tensor, "batch length size"]


def on_real_tokens(
    function: Callable[[States], Float[Tensor, "batch length outputs"]],
    states: States,
    mask: Bool[Tensor, "batch length"] | None,
) -> Float[Tensor, "batch length outputs"]:
    """What `function`, which takes each token by itself, makes of the real ones; padding may get zeros instead."""
    if mask is None or not _only_reads(states):
        return function(states)
    places = mask.flatten().nonzero().squeeze(1)
    if len(places) > WORTHWHILE * mask.numel():
        return function(states)
    rows = function(states.flatten(0, 1).index_select(0, places).unsqueeze(0)).squeeze(0)
    return rows.new_zeros(mask.numel(), rows.shape[1]).index_copy_(0, places, rows).unflatten(0, mask.shape)


def _only_reads(states: Tensor) -> bool:
    """Not for gradients, nor for graphs, whose shapes may not depend on a mask; a GPU would wait for the count."""
    return torch.is_inference_mode_enabled() and states.is_cpu and type(states) is Tensor
