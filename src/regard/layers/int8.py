"""A linear layer in 8 bits.

    W_ij = s_i Q_ij,         Q whole, -64 ... 64           a scale for each output
    x_rj = a_r P_rj,         P whole, -127 ... 127         a scale for each row, found as the row comes
    y_ri = a_r s_i sum_j P_rj Q_ij + b_i                   the sum is of whole numbers, exact

A scale of its own lets a row be what it is in any company: torch's dynamic quantisation has one scale for the whole
batch, so a large row there blurs the small ones beside it. Weights stop at 64 because AVX2 adds the products of two
neighbours in 16 bits, and 2 * 255 * 64 is the most that fits.

Trained Transformers have a few inputs that are ten times as large as all others, in every row (Dettmers et al. 2022).
Such `columns` would spoil the scale of each row, so they are left out of P and Q and added whole.

The product is our own (regard.kernels) or, where there is no compiler, FBGEMM's, through operators that torch calls
deprecated; they are named in this file and nowhere else. Where FBGEMM is missing as well (other processors, GPUs) the
same whole numbers are multiplied as floats: as exact, not faster.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.kernels.ops import Int8Matrix
from regard.layers.blocks import ACTIVATIONS
from regard.layers.int8_checks import LARGEST_WEIGHT, check_int8_layer

LARGEST_INPUT = 127
TINY = torch.finfo(torch.float32).tiny  # a row of zeros has a scale, too
Product = Callable[[Tensor], Tensor]
OPERATOR = "linear_with_input_q_dq_qweight_dq_output_fp32"


class Int8Linear(nn.Module):
    """In place of an `nn.Linear` that has been trained. It cannot be trained itself."""

    weight: Int[Tensor, "outputs inputs"]
    scale: Float[Tensor, "outputs"]
    bias: Float[Tensor, "outputs"] | None

    columns: Int[Tensor, "few"]  # inputs that are not quantised
    whole: Float[Tensor, "outputs few"]  # their weights

    def __init__(self, inputs: int, outputs: int, bias: bool = True):
        super().__init__()
        self.register_buffer("weight", torch.zeros(outputs, inputs, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(outputs))
        self.register_buffer("bias", torch.zeros(outputs) if bias else None)
        self.register_buffer("columns", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("whole", torch.zeros(outputs, 0))
        self.activation = "none"  # of regard.layers.blocks, done while the outputs are at hand
        self._packed: dict[tuple[type, int, int], Any] = {}

    @classmethod
    def of(
        cls,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None = None,
        columns: Int[Tensor, "few"] | None = None,
        activation: str = "none",
    ) -> "Int8Linear":
        layer = cls(weight.shape[1], weight.shape[0], bias is not None)
        layer.activation = activation
        weight = weight.detach().float()
        if columns is not None:
            layer.columns, layer.whole = columns, weight[:, columns].contiguous()
            weight = weight.index_fill(1, columns, 0.0)
        layer.scale = (weight.abs().amax(1) / LARGEST_WEIGHT).clamp(min=TINY)
        layer.weight = (weight / layer.scale[:, None]).round().to(torch.int8)
        layer.bias = None if bias is None else bias.detach().float().clone()
        return layer

    def reserve(self, columns: int) -> None:
        """Room for so many whole columns, to be filled from a checkpoint."""
        self.columns, self.whole = self.columns.new_zeros(columns), self.whole.new_zeros(len(self.scale), columns)

    def forward(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return self.rows(states, 0, len(self.scale))

    def rows(self, states: Float[Tensor, "*batch inputs"], start: int, stop: int) -> Float[Tensor, "*batch part"]:
        """The outputs `start:stop` alone."""
        matrix = self._part(Int8Matrix, Int8Matrix.pack, start, stop)
        result = None if matrix is None else matrix(states)
        return self._part(TorchMatrix8, TorchMatrix8, start, stop)(states) if result is None else result

    def _part(self, kind: type, pack: Callable[..., Any], start: int, stop: int) -> Any:
        """The outputs `start:stop` of the matrix as this kind of product takes it, packed once."""
        key, some = (kind, start, stop), slice(start, stop)
        if key not in self._packed:
            bias = None if self.bias is None else self.bias[some]
            self._packed[key] = pack(
                self.weight[some], self.scale[some], bias, self.columns, self.whole[some], self.activation
            )
        return self._packed[key]

    def _apply(self, function: Any, recurse: bool = True) -> "Int8Linear":
        self._packed.clear()  # what was packed lies where the layer was
        return super()._apply(function, recurse)

    def _load_from_state_dict(self, tensors: Mapping[str, Tensor], prefix: str, *rest: Any) -> None:
        check_int8_layer(prefix, tensors, *self.weight.shape)
        self._packed.clear()
        super()._load_from_state_dict(tensors, prefix, *rest)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": {}}  # copies pack their own

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, bias={self.bias is not None}"


class TorchMatrix8:
    """What `regard.kernels.ops.Int8Matrix` does, where it is not to be had."""

    def __init__(
        self,
        weight: Int[Tensor, "outputs inputs"],
        scale: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        columns: Int[Tensor, "few"],
        whole: Float[Tensor, "outputs few"],
        activation: str,
    ):
        self.product = _packed(weight, scale)
        self.bias, self.columns, self.whole = bias, columns, whole.T.contiguous()
        self.activation = ACTIVATIONS.get(activation)

    def __call__(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        size = states.abs()
        if len(self.columns):
            size.index_fill_(-1, self.columns, 0.0)
        largest = size.amax(-1, keepdim=True).clamp_(min=TINY)  # ten times as fast as the norm that it is
        largest.masked_fill_(largest.isinf(), torch.nan)  # no finite number is left of such a row
        found = self.product(torch.div(states, largest, out=size))  # memory that has just been used is the quickest
        found = found.mul_(largest) if self.bias is None else torch.addcmul(self.bias, found, largest, out=found)
        if len(self.columns):
            chosen = states.reshape(-1, states.shape[-1]).index_select(1, self.columns)
            found.view(-1, found.shape[-1]).addmm_(chosen, self.whole)
        return found if self.activation is None else self.activation(found)


def _packed(weight: Int[Tensor, "outputs inputs"], scale: Float[Tensor, "outputs"]) -> Product:
    """The product of a matrix with inputs between -1 and 1, the matrix in the order in which the kernel reads it."""
    if not _has_fbgemm(weight.device):
        return lambda states: (
            F.linear((states.clamp(-1, 1) * LARGEST_INPUT).round(), weight.to(states.dtype)) * (scale / LARGEST_INPUT)
        )
    kernel, operator = _fbgemm(weight, scale), getattr(torch.ops.quantized, OPERATOR).default

    def product(states: Tensor) -> Tensor:
        rows = torch.atleast_2d(states).contiguous()
        found: Tensor = operator(rows, 1 / LARGEST_INPUT, LARGEST_INPUT + 1, kernel)
        return found.view(*states.shape[:-1], len(scale))

    return product


def _has_fbgemm(device: torch.device) -> bool:
    return (
        device.type == "cpu"
        and "fbgemm" in torch.backends.quantized.supported_engines
        and hasattr(torch.ops.quantized, OPERATOR)
    )


def _fbgemm(weight: Int[Tensor, "outputs inputs"], scale: Float[Tensor, "outputs"]) -> Any:
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that quantised tensors are deprecated
            zeros = torch.zeros(len(scale), dtype=torch.int64)
            matrix = torch._make_per_channel_quantized_tensor(weight.contiguous(), scale.double(), zeros, 0)
            return torch.ops.quantized.linear_prepack(matrix, None)
    finally:
        torch.backends.quantized.engine = engine
