"""The loss of a large vocabulary without its large matrix.

    nll  = logsumexp(z) - z_y,   z = E h
    loss = (1 - eps) nll + eps mean_v(-log p_v)        (label smoothing, Szegedy et al. 2016)

The logits of a batch are the largest tensor of a training step, and writing, reading and differentiating them took
more time than the network. Here they live a few hundred rows at a time, in cache: each chunk's loss and gradient,
p - (1 - eps) onehot(y) - eps / V, is computed at once and the chunk is forgotten.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ELEMENTS = 1 << 21  # logits held at once


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, weight: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        wide = torch.float32 if states.device.type == "mps" else torch.float64  # MPS has no doubles
        loss = torch.zeros((), dtype=wide, device=states.device)
        nll = torch.zeros((), dtype=wide, device=states.device)
        wants_gradient = any(context.needs_input_grad)
        states_gradient = torch.empty_like(states)
        weight_gradient = torch.zeros_like(weight)
        rows = max(1, CHUNK_ELEMENTS // vocabulary)
        logits, log_probabilities = states.new_empty(2, min(rows, len(states)), vocabulary)
        for hidden, target, gradient in zip(
            states.split(rows), targets.split(rows), states_gradient.split(rows), strict=True
        ):
            z, log_p = logits[: len(hidden)], log_probabilities[: len(hidden)]
            torch.mm(hidden, weight.T, out=z)
            torch.log_softmax(z, dim=-1, out=log_p)
            picked = target[:, None]
            chunk_nll = -log_p.gather(1, picked).sum(dtype=wide)
            nll += chunk_nll
            loss += chunk_nll * (1 - smoothing)
            if smoothing:
                loss -= log_p.sum(dtype=wide) * (smoothing / vocabulary)
            if wants_gradient:
                delta = log_p.exp_()
                if smoothing:
                    delta -= smoothing / vocabulary
                delta.scatter_add_(1, picked, delta.new_full(picked.shape, smoothing - 1))
                torch.mm(delta, weight, out=gradient)
                weight_gradient.addmm_(delta.T, hidden)
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
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over all rows: the (smoothed) loss, which carries the gradient, and the plain negative log-likelihood."""
    loss, nll = _LinearCrossEntropy.apply(states, weight, targets, smoothing)
    return loss, nll
