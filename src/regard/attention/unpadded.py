"""What is done to every token by itself need not be done to padding.

In a batch of unlike sentences a quarter of all places, or more, may be padding. For the large products the real tokens
are laid one behind the other, and their results put back to where they were, zeros between them.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

WORTHWHILE = 0.95  # part of the places that are real; above it, laying them together costs what it saves

States = Shaped[Tensor, "*batch length _"]
Outputs = Float[Tensor, "*batch length outputs"]
Mask = Bool[Tensor, "*batch length"] | None


def on_real_tokens(function: Callable[..., Outputs], mask: Mask, *given: States) -> Outputs:
    """What `function`, which takes each token by itself, makes of the real ones; padding may get zeros instead."""
    if mask is None or any(mask.shape != each.shape[:-1] or not _can_be_counted(each) for each in given):
        return function(*given)
    places = mask.flatten().nonzero().squeeze(1)
    if len(places) > WORTHWHILE * mask.numel():
        return function(*given)
    real = (each.flatten(0, -2).index_select(0, places).unsqueeze(0) for each in given)
    rows = function(*real).squeeze(0)
    return rows.new_zeros(mask.numel(), rows.shape[1]).index_copy_(0, places, rows).unflatten(0, mask.shape)


def while_reading(mask: Mask) -> Mask:
    """The mask while a model only reads: batches of a training are of like sentences, and blocks are compiled."""
    return mask if torch.is_inference_mode_enabled() else None


def _can_be_counted(states: Tensor) -> bool:
    """Shapes of a graph may not depend on a mask, and a GPU would have to be waited for."""
    return states.is_cpu and type(states) is Tensor and not (torch.compiler.is_compiling() or torch.jit.is_tracing())
