"""Muon (Jordan et al. 2024): hidden matrices step in every direction equally far; everything else learns by AdamW.

    M = momentum * M + G                            the gradient, gathered
    U = Nesterov: G + momentum * M
    O = the orthogonal matrix nearest to U          all singular values become (about) 1
    W = W (1 - rate * decay) - rate * 0.2 sqrt(max(rows, columns)) * O

The last factor makes an element's step about as long as one of AdamW's (Liu et al. 2025), so both share one learning
rate and one weight decay. Vectors have no singular values, and a row of an embedding is a vector too: those stay with
AdamW. A convolution's kernel is one matrix, [filters, everything else]. A `stacked` group holds parameters
[matrices, rows, columns], each of whose matrices is orthogonalised by itself.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.training.shards import share_like, whole

Matrix = Float[Tensor, "rows columns"]

ITERATION = (3.4445, -4.7750, 2.0315)  # of x, x^3 and x^5: steep at 0, and keeps what is near 1 within [0.7, 1.2]
ITERATIONS = 5
MOMENTUM = 0.95


class Muon(torch.optim.AdamW):
    """AdamW for all groups but those that say `orthogonal`."""

    def __init__(self, groups: Iterable[dict[str, Any]], *args: Any, **options: Any):
        super().__init__([{"orthogonal": False, "stacked": False, **group} for group in groups], *args, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group["orthogonal"]:
                for parameter in group["params"]:
                    self._turn(parameter, group["lr"], group["weight_decay"], group["stacked"])
        super().step()  # of parameters that still have a gradient
        return loss

    def _turn(self, weight: nn.Parameter, rate: float, decay: float, is_stack: bool) -> None:
        if weight.grad is None:
            return
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())  # not needed here, but AdamW looks for it in every state it loads
            state["momentum"] = torch.zeros_like(weight)
        gathered = state["momentum"].mul_(MOMENTUM).add_(weight.grad)
        gradient = whole(weight.grad.add(gathered, alpha=MOMENTUM))
        update = torch.stack([orthogonal(each) for each in gradient]) if is_stack else orthogonal(gradient.flatten(1))
        weight.mul_(1 - rate * decay)
        step = share_like(update.view(weight.shape), weight)
        weight.add_(step, alpha=-rate * 0.2 * max(update.shape[-2:]) ** 0.5)
        weight.grad = None


def orthogonal(matrix: Matrix) -> Matrix:
    """Nearly the closest orthogonal matrix, by matrix products alone (a Newton-Schulz iteration of fifth order)."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix  # the products are of the shorter side
    x = x / x.norm().clamp(min=1e-7)
    first, third, fifth = ITERATION
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = first * x + torch.addmm(square, square, square, beta=third, alpha=fifth) @ x
    return x.T if tall else x
