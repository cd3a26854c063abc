"""The loss of a large vocabulary without its large matrix.

    nll  = lse - z_y,   z = W h,   lse = log sum_v exp(z_v)
    loss = (1 - eps) nll + eps (lse - mean_v z_v)      (label smoothing, Szegedy et al. 2016)

The logits of a batch are the largest tensor of a training step, and writing, reading and differentiating them took
more time than the network. Here they live a few hundred rows at a time, in cache, and only their exponentials e are
ever made from them, in place. The gradient needs no more passes over them:

    d loss / d h = (W^T e) / sum(e) - (1 - eps) W_y - eps mean_v W_v
    d loss / d W = e (h / sum(e))^T - (1 - eps) [h at row y] - eps mean over rows
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.full_precision import apply_in_full
from regard.layers.packed import product
from regard.layers.products import add_outer, multiply

CHUNK_ELEMENTS = 1 << 21  # logits held at once


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, weight: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        wide = torch.float32 if states.device.type == "mps" else torch.float64  # MPS has no doubles
        loss = torch.zeros((), dtype=wide, device=states.device)
        nll = torch.empty(len(states), dtype=states.dtype, device=states.device)
        wants_gradient = any(context.needs_input_grad)
        states_gradient = torch.empty_like(states)
        weight_gradient = torch.zeros_like(weight)
        mean_weight = weight.mean(0)
        rows = max(1, CHUNK_ELEMENTS // vocabulary)
        compare = product(weight)
        for hidden, target, gradient, row_nll in zip(
            states.split(rows), targets.split(rows), states_gradient.split(rows), nll.split(rows), strict=True
        ):
            z = compare(hidden)
            said = z.gather(1, target[:, None]).squeeze(1)
            largest = z.amax(1, keepdim=True)
            total = z.sub_(largest).exp_().sum(1, keepdim=True)
            log_total = (largest + total.log()).squeeze(1)
            torch.sub(log_total, said, out=row_nll)
            loss += row_nll.sum(dtype=wide) * (1 - smoothing)
            if smoothing:
                loss += (log_total - hidden @ mean_weight).sum(dtype=wide) * smoothing
            if wants_gradient:
                torch.div(multiply(z, weight.T), total, out=gradient)
                gradient.sub_(weight[target], alpha=1 - smoothing).sub_(mean_weight, alpha=smoothing)
                add_outer(weight_gradient, z, hidden / total)
                weight_gradient.index_add_(0, target, hidden, alpha=smoothing - 1)
        if wants_gradient and smoothing:
            weight_gradient -= states.sum(0) * (smoothing / vocabulary)
        context.save_for_backward(states_gradient, weight_gradient)
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        states_gradient, weight_gradient = context.saved_tensors
        scale = gradients[0].to(states_gradient.dtype)
        return states_gradient * scale, weight_gradient * scale, None, None


def linear_cross_entropy(
    states: Float[Tensor, "count size"],
    weight: Float[Tensor, "vocabulary size"],
    targets: Int[Tensor, "count"],
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, "count"]]:
    """The (smoothed) loss, summed over all rows, which carries the gradient; and each row's plain negative
    log-likelihood."""
    loss, nll = apply_in_full(_LinearCrossEntropy, states, weight, targets, smoothing)
    return loss, nll
