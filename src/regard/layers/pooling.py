"""One vector for a row of states: their mean, or the first of them. Padding counts for nothing on either side."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

States = Float[Tensor, "batch length size"]
Mask = Bool[Tensor, "batch length"]
Vectors = Float[Tensor, "batch size"]


def first_state(states: States, mask: Mask | None) -> Vectors:
    """The state of each row's first real token, such as [CLS]."""
    if mask is None:
        return states[:, 0]
    return states[torch.arange(len(states), device=states.device), mask.int().argmax(1)]


def mean_state(states: States, mask: Mask | None) -> Vectors:
    """The mean over each row's real tokens; zeros where there are none."""
    if mask is None:
        return states.mean(1)
    return states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


POOLINGS = {"mean": mean_state, "cls": first_state}
