"""Dropout that is cheap on a CPU.

torch draws one Bernoulli number per element on one thread, which took a sixth of a training step. Here the generator
fills 64-bit words, each of which decides four elements: 16 bits resolve p to within 1/65536, and the survivors are
scaled by the probability really used, so the expectation is exact. On other devices torch's own kernel is used.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UsageError

STEPS = 1 << 16


def keep_mask(shape: torch.Size, dropped: int) -> Tensor:
    """A boolean tensor in which each element is False with probability dropped / 65536."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64)
    words.random_(torch.iinfo(torch.int64).min, None)
    return (words.view(torch.int16)[:count] >= dropped - STEPS // 2).view(shape)


class _Drop(torch.autograd.Function):
    """Multiplies by the mask and the scale; keeps one byte per element for the way back."""

    @staticmethod
    def forward(context: Any, states: Tensor, keep: Tensor, scale: float) -> Tensor:
        context.save_for_backward(keep)
        context.scale = scale
        return (states * keep).mul_(scale)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = context.saved_tensors
        return (gradients[0] * keep).mul_(context.scale), None, None


class Dropout(nn.Module):
    """Sets each element to zero with probability `p` while training, and scales the others up."""

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise UsageError(f"dropout must lie in [0, 1), not {p}")
        self.p = p

    def forward(self, states: Tensor) -> Tensor:
        if not self.training:
            return states
        dropped = min(round(self.p * STEPS), STEPS - 1)
        if dropped == 0:
            return states
        if states.device.type != "cpu":
            return F.dropout(states, self.p)
        keep = keep_mask(states.shape, dropped)
        return _Drop.apply(states, keep, STEPS / (STEPS - dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"
