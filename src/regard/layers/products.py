"""Matrix products while a model learns, there and back.

    y = W x + b,   dL/dx = W^T dL/dy,   dL/dW = dL/dy x^T,   dL/db = dL/dy

torch lets MKL multiply, which on processors that are not Intel's does without AVX-512. oneDNN, which torch brings
along, does the first two up to twice as fast, and a kernel of our own the third: `python -m benchmarks products`. While
a model only reads, there is more to gain: regard.layers.packed.

Elsewhere, and for small products, numbers of 16 bits and graphs that are traced, torch multiplies.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.attention import multihead
from regard.kernels import ops

LEAST = 1 << 23  # multiplications: 128 rows by a matrix of 256 x 256

States = Float[Tensor, "*batch inputs"]
Weight = Float[Tensor, "outputs inputs"]
Bias = Float[Tensor, "outputs"]
Outputs = Float[Tensor, "*batch outputs"]


def quicken(model: nn.Module) -> None:
    """From now on, the linear layers of a model multiply as here. They stay what they are in every other respect; but
    gradients of gradients they have no longer."""
    for module in model.modules():
        for plain, quick in ((nn.Linear, Linear), (multihead.Projection, Projection)):
            if type(module) is plain:
                module.__class__ = quick


class Linear(nn.Linear):
    """torch's, multiplied as here."""

    def forward(self, states: States) -> Outputs:
        return linear(states, self.weight, self.bias)


class Projection(multihead.Projection):
    """That of attention, multiplied as here."""

    def forward(self, states: States) -> Outputs:
        return linear(states, self.weight, self.bias)

    def rows(self, states: States, start: int, stop: int) -> Outputs:
        bias: Tensor | None = self.bias
        return linear(states, self.weight[start:stop], None if bias is None else bias[start:stop])


def linear(states: States, weight: Weight, bias: Bias | None = None) -> Outputs:
    """W x + b."""
    if not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or not _suit(states, weight, bias):
        return F.linear(states, weight, bias)
    found: Tensor = _Product.apply(states, weight, bias)
    return found


def multiply(states: States, weight: Weight, bias: Bias | None = None) -> Outputs:
    """The same without a graph; the matrix may be a transposed one."""
    if not _suit(states, weight, bias):
        return F.linear(states, weight, bias)
    if not (weight.is_contiguous() or weight.T.is_contiguous()):  # of part of a matrix oneDNN makes a plain loop
        weight = weight.contiguous()
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(states, weight, bias, "none", [], "")
    return found


def add_outer(total: Weight, to_outputs: Float[Tensor, "rows outputs"], states: Float[Tensor, "rows inputs"]) -> Weight:
    """total += d^T x, without a graph: what some rows add to the gradient of a matrix."""
    is_large = are_better() and states.numel() * to_outputs.shape[-1] >= LEAST
    if is_large and ops.accumulate_weight_grad(total, to_outputs, states):
        return total
    return torch.addmm(total, to_outputs.T, states, out=total)  # FLOP counters do not know addmm_


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(states, weight)
        return multiply(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = context.saved_tensors
        wants_states, wants_weight, wants_bias = context.needs_input_grad
        to_states = to_weight = to_bias = None
        to_outputs = gradients[0].reshape(-1, len(weight))
        if wants_states:
            to_states = multiply(gradients[0], weight.T)
        if wants_weight:
            to_weight = add_outer(weight.new_zeros(weight.shape), to_outputs, states.reshape(-1, states.shape[-1]))
        if wants_bias:
            to_bias = to_outputs.sum(0)
        return to_states, to_weight, to_bias


def _suit(states: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether oneDNN can multiply these, and is worth the call."""
    return (
        are_better()
        and states.numel() * weight.numel() >= LEAST  # at the least: most products are too small
        and ops.is_ordinary(states, weight)
        and states.dim() > 0
        and weight.dim() == 2
        and states.shape[-1] == weight.shape[1]
        and states.numel() * weight.shape[0] >= LEAST
        and (bias is None or is_bias(bias, weight.shape[0]))
        and not (torch.compiler.is_compiling() or torch.jit.is_tracing())
    )


def is_bias(bias: Tensor, outputs: int) -> bool:
    """Whether oneDNN can add this: it checks neither the shape of a bias nor its stride."""
    return bias.shape == (outputs,) and bias.is_contiguous() and ops.is_ordinary(bias)


@cache
def are_better() -> bool:
    """Whether oneDNN's products are here, and quicker than torch's."""
    return has_onednn() and torch.backends.cpu.get_cpu_capability() == "AVX512"


@cache
def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
