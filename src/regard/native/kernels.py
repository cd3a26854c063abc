"""The kernels as functions of tensors.

Whoever calls them asks `takes` first. They keep no graph: they are for reading, under torch.inference_mode; but
those of the GRU, for which `fits` is enough, are steps of a function whose way back is written out.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.native.compiled import LONGS, library

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")  # in the order of activations.h
MOST_ROWS = 8  # of a product that is not in 8 bits: with more, kernels are faster that take a matrix in their order,
MOST_UNORDERED = 48  # but up to here, putting it so for a single text takes longer than it saves
MOST_QUERIES = 8  # that ask one memory, a few; from there on they are many
MOST_KEYS = 4096  # of many queries: with more, torch's kernel, which never has all scores of a query at once, is faster
FEWEST_OUTPUTS = 6  # of a matrix whose gradient is summed up, or more
VECTOR = 16  # numbers: the values that many queries read have a multiple of it


def takes(tensor: Tensor) -> bool:
    """Whether there are kernels for such a tensor here and now."""
    return torch.is_inference_mode_enabled() and fits(tensor)


def fits(tensor: Tensor) -> bool:
    """Whether a kernel could read such a tensor, if no graph is wanted."""
    return (
        tensor.is_cpu
        and tensor.dtype is torch.float32
        and type(tensor) is Tensor  # tracers and compilers have kinds of their own
        and tensor.numel() > 0
        and are_here()
    )


def are_here() -> bool:
    """Whether there are kernels at all."""
    return library() is not None


def takes_8_bits(tensor: Tensor) -> bool:
    return takes(tensor) and hasattr(library(), "linear8")


def linear(
    states: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, "outputs"] | None,
    activation: str = "none",
) -> Float[Tensor, "*batch outputs"]:
    """f(W x + b)."""
    states = states.contiguous()
    outputs, inputs = weight.shape
    found = states.new_empty(*states.shape[:-1], outputs)
    _call("linear")(
        *(found.data_ptr(), states.data_ptr(), states.numel() // inputs),
        *(weight.data_ptr(), _place(bias), ACTIVATIONS.index(activation), outputs, inputs),
    )
    return found


def add_norm(
    states: Float[Tensor, "*batch size"],
    added: Float[Tensor, "*batch size"],
    weight: Float[Tensor, "size"],
    bias: Float[Tensor, "size"],
    epsilon: float,
) -> Float[Tensor, "*batch size"]:
    """LayerNorm(x + z)."""
    states, added = states.contiguous(), added.contiguous()
    found = torch.empty_like(states)
    _call("add_norm")(
        *(found.data_ptr(), states.data_ptr(), added.data_ptr(), states.numel() // len(weight), len(weight)),
        *(weight.data_ptr(), bias.data_ptr(), epsilon),
    )
    return found


class Matrix8:
    """f(W x + b) with a matrix in 8 bits (regard.layers.int8), kept in the order in which the kernel reads it."""

    def __init__(
        self,
        weight: Int[Tensor, "outputs inputs"],
        scale: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        columns: Int[Tensor, "few"],
        whole: Float[Tensor, "outputs few"],
        activation: str = "none",
    ):
        self.outputs, self.inputs = weight.shape
        weight = weight.contiguous()
        self.packed = weight.new_empty(_call("packed8_size")(self.outputs, self.inputs))
        _call("pack8")(self.packed.data_ptr(), weight.data_ptr(), self.outputs, self.inputs)
        self.sums = 128 * weight.sum(1, dtype=torch.int32)  # inputs have 128 added, so that none is negative
        self.scale = scale / 127
        self.bias, self.columns, self.whole = bias, columns, whole.T.contiguous()
        self.activation = ACTIVATIONS.index(activation)

    def __call__(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        states = states.contiguous()
        rows = states.numel() // self.inputs
        found = states.new_empty(*states.shape[:-1], self.outputs)
        quantised = self.packed.new_empty(rows, self.inputs + 3)  # filled up to fours
        largest = states.new_empty(rows)
        _call("linear8")(
            *(found.data_ptr(), states.data_ptr(), rows),
            *(self.packed.data_ptr(), self.scale.data_ptr(), self.sums.data_ptr(), _place(self.bias)),
            *(self.columns.data_ptr(), self.whole.data_ptr(), len(self.columns)),
            *(self.activation, self.outputs, self.inputs, quantised.data_ptr(), largest.data_ptr()),
        )
        return found


def attend(
    query: Float[Tensor, "batch heads queries size"],
    keys: Float[Tensor, "batch heads keys size"],
    values: Float[Tensor, "batch heads keys value_size"],
    allowed: Bool[Tensor, "..."] | None,
    causal: bool,
    scale: float,
) -> Float[Tensor, "batch heads queries value_size"]:
    """softmax(q k^T scale) v; a query that may attend to nothing reads zeros. `causal`: queries are the last of the
    keys, and see no later one."""
    batch, heads, queries, size = query.shape
    count, value_size = values.shape[-2:]
    read = query.new_empty(batch, queries, heads, value_size)
    room = query.new_empty(_call("threads")(), heads + 1, count)
    if allowed is not None:
        allowed = allowed.expand(batch, heads, queries, count)
    _call("attend")(
        *(read.data_ptr(), query.data_ptr(), keys.data_ptr(), values.data_ptr(), _place(allowed)),
        *(batch, heads, queries, count, size, value_size),
        *(LONGS(*query.stride()), LONGS(*keys.stride()), LONGS(*values.stride())),
        None if allowed is None else LONGS(*allowed.stride()),
        *(causal, scale, room.data_ptr()),
    )
    return read.transpose(1, 2)


def attend_many(
    query: Float[Tensor, "batch heads queries size"],
    keys: Float[Tensor, "batch heads keys size"],
    values: Float[Tensor, "batch heads keys value_size"],
    allowed: Bool[Tensor, "batch keys"] | None,
    causal: bool,
    scale: float,
    keep: bool = False,
) -> tuple[Float[Tensor, "batch heads queries value_size"], Float[Tensor, "batch heads queries keys"] | None]:
    """The same for more queries, over keys that all of them see or, if `causal`, all but the later ones; and the
    weights, if they shall be kept. What is read is bitwise the same, kept or not."""
    batch, heads, queries, size = query.shape
    count, value_size = values.shape[-2:]
    read = query.new_empty(batch, queries, heads, value_size)
    weights = query.new_empty(batch, heads, queries, count) if keep else None
    room = query.new_empty(_call("threads")(), _call("room_of_many")(count, size, value_size))
    _call("attend_many")(
        *(read.data_ptr(), _place(weights), query.data_ptr(), keys.data_ptr(), values.data_ptr(), _place(allowed)),
        *(batch, heads, queries, count, size, value_size),
        *(LONGS(*query.stride()), LONGS(*keys.stride()), LONGS(*values.stride())),
        None if allowed is None else LONGS(*allowed.stride()),
        *(causal, scale, room.data_ptr()),
    )
    return read.transpose(1, 2), weights


def add_outer(
    total: Float[Tensor, "outputs inputs"],
    to_outputs: Float[Tensor, "rows outputs"],
    states: Float[Tensor, "rows inputs"],
) -> None:
    """total += d^T x: what rows add to the gradient of a matrix, always in the same order."""
    to_outputs, states = to_outputs.contiguous(), states.contiguous()
    (rows, outputs), inputs = to_outputs.shape, states.shape[1]
    room = total.new_empty(_call("room_of_outer")(inputs))
    _call("add_outer")(
        *(total.data_ptr(), to_outputs.data_ptr(), states.data_ptr()), *(rows, outputs, inputs), room.data_ptr()
    )


def gru_step(
    following: Float[Tensor, "directions rows size"],
    kept: Float[Tensor, "directions rows gates"],
    gates: Float[Tensor, "directions rows gates"],
    product: Float[Tensor, "directions rows gates"],
    state: Float[Tensor, "directions rows size"],
) -> None:
    """From W x and U h, with their biases, and h: writes h', and r, z and n behind each other into `kept`.

    The rows of a direction lie behind each other; directions may lie apart, in `state` otherwise than in the rest.
    """
    directions, rows, size = state.shape
    _call("gru_step")(
        *(each.data_ptr() for each in (following, kept, gates, product, state)),
        *(directions, rows, size, kept.stride(0) // kept.shape[2], state.stride(0) // size),
    )


def gru_step_back(
    to_gates: Float[Tensor, "directions rows gates"],
    to_product: Float[Tensor, "directions rows gates"],
    carried: Float[Tensor, "directions rows size"],
    gradient: Float[Tensor, "directions rows size"],
    kept: Float[Tensor, "directions rows gates"],
    product: Float[Tensor, "directions rows gates"],
    state: Float[Tensor, "directions rows size"],
) -> None:
    """From the gradient of h', `gradient` + `carried`: writes those of W x and U h; `carried` becomes that of h without
    what comes through U h."""
    directions, rows, size = state.shape
    _call("gru_step_back")(
        *(each.data_ptr() for each in (to_gates, to_product, carried, gradient, kept, product, state)),
        *(directions, rows, size),
        *(kept.stride(0) // kept.shape[2], state.stride(0) // size, carried.stride(0) // size),
    )


def fingerprint(numbers: Float[Tensor, "..."]) -> int:
    """What tells a tensor of single precision, which lies in one piece, from the same after any change."""
    return int(_call("fingerprint")(numbers.data_ptr(), numbers.numel()))


def _call(name: str) -> Any:
    return getattr(library(), name)


def _place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
