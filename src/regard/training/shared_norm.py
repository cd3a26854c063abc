"""Batch norm over the rows of all processes. (torch has one too, for GPUs alone.)"""

import torch
import torch.distributed as dist
from torch import Tensor, nn


class SharedBatchNorm2d(nn.BatchNorm2d):
    """The same as its parent sees if one process has all the rows."""

    def forward(self, images: Tensor) -> Tensor:
        if not self.training:
            return super().forward(images)
        count = sum_over_all(images.new_tensor([images.numel() / images.shape[1]]))
        mean = sum_over_all(images.sum((0, 2, 3))) / count
        centred = images - mean[:, None, None]
        variance = sum_over_all(centred.square().sum((0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        scale = (variance + self.eps).rsqrt() * self.weight
        return centred * scale[:, None, None] + self.bias[:, None, None]

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


class _Sum(torch.autograd.Function):
    """What all processes have, added; each one's part of it gets the gradients of all."""

    @staticmethod
    def forward(context: object, values: Tensor) -> Tensor:
        values = values.clone()
        dist.all_reduce(values)
        return values

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient


def sum_over_all(values: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(values)
    return total


def share_batch_norms(model: nn.Module) -> None:
    """The same parameters and buffers, with statistics over all processes."""
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = SharedBatchNorm2d
