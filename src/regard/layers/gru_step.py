"""One step of a GRU between its matrix products, there and back; directions step side by side.

    r = σ(g_r + p_r),   z = σ(g_z + p_z),   n = tanh(g_n + r ⊙ p_n),   h' = (1 - z) ⊙ n + z ⊙ h,   g = W x,  p = U h

Ours in C where it may be, which passes over the numbers once; else torch's functions, one after the other.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels import ops, reference
from regard.kernels.reference import Gates, States
from regard.layers.full_precision import apply_in_full


def ahead(following: States, kept: Gates, gates: Gates, product: Gates, state: States) -> None:
    """Writes h' to `following`, and r, z and n to `kept`."""
    if not ops.gru_step(following, kept, gates, product, state):
        reference.gru_step(following, kept, gates, product, state)


def back(
    to_gates: Gates, to_product: Gates, carried: States, gradient: States, kept: Gates, product: Gates, state: States
) -> None:
    """Writes the gradients of g and p. That of h' is `gradient` + `carried`; `carried` becomes that of h, without the
    part that comes through p."""
    if not ops.gru_step_backward(to_gates, to_product, carried, gradient, kept, product, state):
        reference.gru_step_backward(to_gates, to_product, carried, gradient, kept, product, state)


class _Step(torch.autograd.Function):
    """h' of g, p and h: [rows, ...]."""

    @staticmethod
    def forward(context: Any, gates: Tensor, product: Tensor, state: Tensor) -> Tensor:
        gates, product, state = (each.contiguous()[None] for each in (gates, product, state))
        following, kept = torch.empty_like(state), torch.empty_like(gates)
        ahead(following, kept, gates, product, state)
        context.save_for_backward(kept, product, state)
        return following[0]

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept, product, state = context.saved_tensors
        to_gates, to_product, carried = torch.empty_like(kept), torch.empty_like(kept), torch.zeros_like(state)
        gradient = gradients[0].contiguous()[None]
        back(to_gates, to_product, carried, gradient, kept, product, state)
        return to_gates[0], to_product[0], carried[0]


def step(
    gates: Float[Tensor, "rows gates"], product: Float[Tensor, "rows gates"], state: Float[Tensor, "rows size"]
) -> Float[Tensor, "rows size"]:
    """The next state, in a pass there and a pass back."""
    found: Tensor = apply_in_full(_Step, gates, product, state)
    return found
