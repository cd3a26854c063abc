"""The only calls into C. Each checks every operand first: kind, device, dtype, shape, strides, overlap and sizes.

Inference functions return None, and functions that write in place return False, where no kernel can do what is asked;
the caller then uses torch, which gives its own result or raises its own error. Nothing is assumed about callers.

Kernels compute in float32 and keep no graph. Inference functions run under `torch.inference_mode` only, outside of
autocast (which would compute in another dtype) and of dispatch modes (which must see every operation).
"""

import os
import threading
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.kernels.build import library
from regard.processors import available_cpus

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")  # in the order of activations.h
MAX_ROWS = 8  # of a float32 product; with more rows, kernels that take a prepacked matrix are faster,
MAX_ROWS_UNPACKED = 48  # but up to here, prepacking for a single text takes longer than it saves
MAX_DECODE_QUERIES = 8  # of attention_decode; more queries go to attention_prefill
MAX_PREFILL_KEYS = 4096  # with more, torch's kernel, which never has all scores of a query at once, is faster
VECTOR = 16  # attention_prefill takes head sizes that are multiples of it
MIN_OUTPUTS = 6  # of a matrix whose gradient is accumulated
MAX_INT8_WEIGHT = 64  # the products of two neighbours are added in 16 bits
MAX_INT8_INPUTS = 2**31 // (255 * MAX_INT8_WEIGHT) - 1  # sums have 32 bits
MAX_KEPT_WORKSPACE = 2**16  # numbers
MAX_INDEX = 2**31 - 1  # keys are counted in 32 bits
FLOAT_BYTES = 4

_TENSORS = (Tensor, nn.Parameter)  # subclasses (FakeTensor, DTensor, ...) do what they must in torch
_C: Any = library  # its functions, for those who have asked whether there is one
_num_dispatch_modes = torch._C._len_torch_dispatch_stack
_own = threading.local()  # the workspace of a thread
_forked = False


def _after_fork() -> None:
    """In a process that was forked, one thread computes: the other threads of GNU OpenMP exist in the parent alone, and
    waiting for them would never end, in functions of torch as in ours."""
    global _forked
    _forked = True
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


def num_threads() -> int:
    """Threads of a kernel: as many as torch uses, but no more than this process may use."""
    threads, limit = torch.get_num_threads(), 1 if _forked else available_cpus()
    return threads if threads < limit else limit


def is_available() -> bool:
    """Whether there are kernels at all."""
    return library() is not None


def has_int8() -> bool:
    """Whether there is an int8 kernel for this processor."""
    return hasattr(library(), "linear_int8")


def linear(
    states: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, "outputs"] | None,
    activation: str = "none",
) -> Float[Tensor, "*batch outputs"] | None:
    """f(W x + b) for a few rows, of a matrix as it lies in memory."""
    if not _may_infer() or not _are_plain(torch.float32, states, weight, weight if bias is None else bias):
        return None
    if weight.dim() != 2 or not weight.is_contiguous():
        return None
    (outputs, inputs), (*batch, width) = weight.shape, states.shape or (0,)
    if width != inputs or not outputs or not states.numel():
        return None
    if bias is not None and (bias.shape != (outputs,) or not bias.is_contiguous()):
        return None
    states = states.contiguous()
    result = states.new_empty((*batch, outputs))
    pointers = _pointers(result, states, weight, bias)
    if pointers is None:
        return None
    y, x, w, b = pointers
    rows = states.numel() // inputs
    _C().linear_small(y, x, w, b, rows, outputs, inputs, ACTIVATIONS.index(activation), num_threads())
    return result


def add_norm(
    states: Float[Tensor, "*batch size"],
    added: Float[Tensor, "*batch size"],
    weight: Float[Tensor, "size"],
    bias: Float[Tensor, "size"],
    epsilon: float,
) -> Float[Tensor, "*batch size"] | None:
    """LayerNorm(x + z)."""
    if not _may_infer() or not _are_plain(torch.float32, states, added, weight, bias):
        return None
    shape, size = states.shape, weight.numel()
    if shape[-1:] != (size,) or added.shape != shape or not size:
        return None
    if weight.shape != (size,) or bias.shape != (size,) or not (weight.is_contiguous() and bias.is_contiguous()):
        return None
    states, added = states.contiguous(), added.contiguous()
    result = torch.empty_like(states)
    pointers = _pointers(result, states, added, weight, bias)
    if pointers is None:
        return None
    y, x, z, w, b = pointers
    _C().add_norm(y, x, z, w, b, states.numel() // size, size, epsilon, num_threads())
    return result


class Int8Matrix:
    """f(W x + b) with an int8 matrix (regard.layers.int8), in the order in which the kernel reads it.

    It owns copies of everything it reads, checked once, so that nobody can change a size or an index afterwards.
    """

    @classmethod
    def pack(
        cls,
        weight: Int[Tensor, "outputs inputs"],
        scale: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        columns: Int[Tensor, "outliers"],
        outlier_weight: Float[Tensor, "outputs outliers"],
        activation: str = "none",
    ) -> "Int8Matrix | None":
        """The matrix, or None if no kernel can multiply by it."""
        if not has_int8() or _num_dispatch_modes() or not _are_plain(torch.int8, weight):
            return None
        if not _are_plain(torch.int64, columns):
            return None
        if not _are_floats(scale, outlier_weight) or not (bias is None or _are_floats(bias)):
            return None
        if weight.dim() != 2 or columns.dim() != 1 or not weight.numel() or _pointers(weight, scale, bias) is None:
            return None
        outputs, inputs = weight.shape
        if inputs > MAX_INT8_INPUTS or weight.max() > MAX_INT8_WEIGHT or weight.min() < -MAX_INT8_WEIGHT:
            return None
        few = columns.shape[0]
        shapes_fit = _is_vector(scale, outputs) and (bias is None or _is_vector(bias, outputs))
        if not shapes_fit or outlier_weight.shape != (outputs, few) or not _are_ascending(columns, inputs):
            return None
        return cls(weight, scale, bias, columns, outlier_weight, activation)

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        bias: Tensor | None,
        columns: Tensor,
        outlier_weight: Tensor,
        activation: str,
    ):
        self.outputs, self.inputs = weight.shape
        weight = weight.contiguous()
        self.packed = weight.new_empty(_C().packed_int8_size(self.outputs, self.inputs))
        _C().pack_int8(self.packed.data_ptr(), weight.data_ptr(), self.outputs, self.inputs)
        self.sums = 128 * weight.sum(1, dtype=torch.int32)  # inputs have 128 added, so that none is negative
        self.scale = scale / 127
        self.bias = None if bias is None else bias.clone()
        self.columns = columns.clone()
        self.outlier_weight = outlier_weight.T.clone(memory_format=torch.contiguous_format)
        self.activation = ACTIVATIONS.index(activation)

    def __call__(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"] | None:
        if not _may_infer() or not _are_floats(states) or not _has_size(states, self.inputs):
            return None
        states = states.contiguous()
        rows = states.numel() // self.inputs
        result = states.new_empty((*states.shape[:-1], self.outputs))
        quantized = self.packed.new_empty((rows, self.inputs + 3))  # each row is filled up to a multiple of four
        largest = states.new_empty(rows)
        pointers = _pointers(result, states, quantized, largest)
        if pointers is None:
            return None
        y, x, q, maximum = pointers
        _C().linear_int8(
            *(y, x, self.packed.data_ptr(), self.scale.data_ptr(), self.sums.data_ptr()),
            *(0 if self.bias is None else self.bias.data_ptr(), self.columns.data_ptr()),
            *(self.outlier_weight.data_ptr(), q, maximum, rows, len(self.columns), self.outputs, self.inputs),
            *(self.activation, num_threads()),
        )
        return result


def attention(
    query: Float[Tensor, "batch heads queries size"],
    keys: Float[Tensor, "batch heads keys size"],
    values: Float[Tensor, "batch heads keys value_size"],
    allowed: Bool[Tensor, "..."] | None,
    causal: bool,
    scale: float,
) -> Float[Tensor, "batch heads queries value_size"] | None:
    """softmax(q k^T scale) v; a query that may attend to nothing gives zeros. `causal`: queries are the last of the
    keys, and attend to no later one."""
    if not _can_attend(query, keys, values, allowed):
        return None
    if query.shape[2] <= MAX_DECODE_QUERIES:
        return _attention_decode(query, keys, values, allowed, causal, scale)
    found = _attention_prefill(query, keys, values, allowed, causal, scale, False)
    return None if found is None else found[0]


def attention_with_weights(
    query: Float[Tensor, "batch heads queries size"],
    keys: Float[Tensor, "batch heads keys size"],
    values: Float[Tensor, "batch heads keys value_size"],
    allowed: Bool[Tensor, "..."] | None,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "batch heads queries value_size"], Float[Tensor, "batch heads queries keys"]] | None:
    """The same for more than a few queries, with the weights. The context is bitwise the same as without."""
    if not _can_attend(query, keys, values, allowed) or query.shape[2] <= MAX_DECODE_QUERIES:
        return None
    return _attention_prefill(query, keys, values, allowed, causal, scale, True)


def _can_attend(query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None) -> bool:
    """Whether kernels can read these tensors as they lie in memory."""
    if not _may_infer() or not _are_plain(torch.float32, query, keys, values) or query.dim() != 4:
        return False
    if allowed is not None and (not _are_plain(torch.bool, allowed) or allowed.dim() > 4):
        return False
    batch, heads, _, size = query.shape
    count = keys.shape[-2] if keys.dim() == 4 else 0
    return (
        0 < count <= MAX_INDEX
        and query.numel() > 0
        and keys.shape == (batch, heads, count, size)
        and values.shape[:-1] == (batch, heads, count)
        and values.shape[-1] > 0
        and query.stride(3) == keys.stride(3) == values.stride(3) == 1
    )


def _attention_decode(
    query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, causal: bool, scale: float
) -> Tensor | None:
    """For a few queries, as every step of decoding has them. `allowed` broadcasts to [batch, heads, queries, keys]."""
    batch, heads, queries, size = query.shape
    count, value_size = values.shape[-2:]
    mask_strides = (0, 0, 0, 0) if allowed is None else _mask_strides(allowed, (batch, heads, queries, count))
    if mask_strides is None:
        return None
    threads = num_threads()
    context = query.new_empty((batch, queries, heads, value_size))
    workspace = _workspace(threads * (heads + 1) * count)
    pointers = _pointers(context, query, keys, values, allowed, workspace)
    if pointers is None:
        return None
    _C().attention_decode(
        *(*pointers, batch, heads, queries, count, size, value_size),
        *(*query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], *mask_strides),
        *(scale, causal, threads),
    )
    return context.transpose(1, 2)


def _attention_prefill(
    query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, causal: bool, scale: float, with_weights: bool
) -> tuple[Tensor, Any] | None:
    """For more queries, which may attend to the same keys or, if `causal`, to all but the later ones."""
    batch, heads, queries, size = query.shape
    count, value_size = values.shape[-2:]
    if count > MAX_PREFILL_KEYS or size % VECTOR or value_size % VECTOR:
        return None
    if causal and (allowed is not None or queries > count):
        return None
    mask_strides = (0, 0, 0, 0) if allowed is None else _mask_strides(allowed, (batch, 1, 1, count))
    if mask_strides is None or (allowed is not None and allowed.dim() < 4):
        return None
    threads = num_threads()
    context = query.new_empty((batch, queries, heads, value_size))
    weights = query.new_empty((batch, heads, queries, count)) if with_weights else None
    workspace = query.new_empty((threads, _C().attention_prefill_workspace(count, size, value_size)))
    pointers = _pointers(context, weights, query, keys, values, allowed, workspace)
    if pointers is None:
        return None
    _C().attention_prefill(
        *(*pointers, batch, heads, queries, count, size, value_size),
        *(*query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], mask_strides[0], mask_strides[3]),
        *(scale, causal, threads),
    )
    return context.transpose(1, 2), weights


def accumulate_weight_grad(
    total: Float[Tensor, "outputs inputs"],
    grad_outputs: Float[Tensor, "rows outputs"],
    states: Float[Tensor, "rows inputs"],
) -> bool:
    """total += d^T x, in place: what some rows add to the gradient of a matrix, always in the same order."""
    if library() is None or not _have_no_graph(total, grad_outputs, states):
        return False
    if not total.dim() == grad_outputs.dim() == states.dim() == 2 or not total.is_contiguous():
        return False
    outputs, inputs = total.shape
    rows = states.shape[0]
    if grad_outputs.shape != (rows, outputs) or states.shape[1] != inputs or outputs < MIN_OUTPUTS or not rows * inputs:
        return False
    grad_outputs, states = grad_outputs.contiguous(), states.contiguous()
    workspace = total.new_empty(_C().weight_grad_workspace(inputs))
    pointers = _pointers(total, grad_outputs, states, workspace)
    if pointers is None:
        return False
    y, d, x, w = pointers
    if _overlap([_span(y, total.numel())], [_span(d, grad_outputs.numel()), _span(x, states.numel())]):
        return False
    _C().accumulate_weight_grad(y, d, x, w, rows, outputs, inputs, num_threads())
    return True


def gru_step(
    following: Float[Tensor, "directions rows size"],
    activations: Float[Tensor, "directions rows gates"],
    gates: Float[Tensor, "directions rows gates"],
    product: Float[Tensor, "directions rows gates"],
    state: Float[Tensor, "directions rows size"],
) -> bool:
    """From W x and U h, with their biases, and h: writes h' to `following`, and r, z and n to `activations`.

    The rows of a direction are adjacent in memory; directions may be apart, in `state` otherwise than in the rest.
    """
    if library() is None or not _have_no_graph(following, activations, gates, product, state):
        return False
    directions, rows, size = state.shape if state.dim() == 3 else (0, 0, 0)
    apart = _direction_rows(gates, directions, rows, 3 * size)
    state_apart = _direction_rows(state, directions, rows, size)
    if apart is None or state_apart is None:
        return False
    if (
        not _direction_rows(activations, directions, rows, 3 * size)
        == _direction_rows(product, directions, rows, 3 * size)
        == _direction_rows(following, directions, rows, size)
        == apart
    ):
        return False
    pointers = _pointers(following, activations, gates, product, state)
    if pointers is None:
        return False
    y, a, g, p, h = pointers
    width = 3 * size
    written = _spans(y, directions, apart * size, rows * size) + _spans(a, directions, apart * width, rows * width)
    read = [
        *(_spans(g, directions, apart * width, rows * width) + _spans(p, directions, apart * width, rows * width)),
        *_spans(h, directions, state_apart * size, rows * size),
    ]
    if _overlap(written, read):
        return False
    _C().gru_step(y, a, g, p, h, directions, rows, size, apart, state_apart, num_threads())
    return True


def gru_step_backward(
    grad_gates: Float[Tensor, "directions rows gates"],
    grad_product: Float[Tensor, "directions rows gates"],
    carried: Float[Tensor, "directions rows size"],
    gradient: Float[Tensor, "directions rows size"],
    activations: Float[Tensor, "directions rows gates"],
    product: Float[Tensor, "directions rows gates"],
    state: Float[Tensor, "directions rows size"],
) -> bool:
    """From the gradient of h', `gradient` + `carried`: writes those of W x and U h; `carried` becomes that of h without
    the part that comes through U h."""
    if library() is None or not _have_no_graph(
        grad_gates, grad_product, carried, gradient, activations, product, state
    ):
        return False
    directions, rows, size = state.shape if state.dim() == 3 else (0, 0, 0)
    width = 3 * size
    apart = _direction_rows(activations, directions, rows, width)
    state_apart = _direction_rows(state, directions, rows, size)
    carried_apart = _direction_rows(carried, directions, rows, size)
    if apart is None or state_apart is None or carried_apart is None:
        return False
    if any(_direction_rows(each, directions, rows, width) != apart for each in (grad_gates, grad_product, product)):
        return False
    if _direction_rows(gradient, directions, rows, size) != apart:
        return False
    pointers = _pointers(grad_gates, grad_product, carried, gradient, activations, product, state)
    if pointers is None:
        return False
    gg, gp, c, g, a, p, h = pointers
    written = [
        *(_spans(gg, directions, apart * width, rows * width) + _spans(gp, directions, apart * width, rows * width)),
        *_spans(c, directions, carried_apart * size, rows * size),
    ]
    read = [
        *(_spans(a, directions, apart * width, rows * width) + _spans(p, directions, apart * width, rows * width)),
        *(_spans(g, directions, apart * size, rows * size) + _spans(h, directions, state_apart * size, rows * size)),
    ]
    if _overlap(written, read):
        return False
    _C().gru_step_backward(
        *(gg, gp, c, g, a, p, h, directions, rows, size, apart, state_apart, carried_apart, num_threads())
    )
    return True


def fingerprint(numbers: Float[Tensor, "..."]) -> int | None:
    """A hash of a contiguous float32 tensor, which changes whenever a number does."""
    if library() is None or not _are_floats(numbers) or not numbers.is_contiguous() or not numbers.numel():
        return None
    pointers = _pointers(numbers)
    return None if pointers is None else int(_C().fingerprint(*pointers, numbers.numel(), num_threads()))


def is_ordinary(*tensors: Tensor) -> bool:
    """Whether all are float32 tensors in the memory of the CPU that nobody traces, transforms or wraps. torch's oneDNN
    operators, which check little themselves, get no others."""
    return _are_floats(*tensors) and not _num_dispatch_modes() and _pointers(*tensors) is not None


def can_look_at(mask: Bool[Tensor, "..."]) -> bool:
    """Whether the values of a mask can decide what is computed: they are here, and nobody traces the decision."""
    return _may_infer() and _are_plain(torch.bool, mask) and _pointers(mask) is not None


def _workspace(numbers: int) -> Tensor:
    """Memory that a kernel needs while it runs. A small one is used again by the next call of this thread, because a
    step of decoding takes little longer than asking for memory."""
    if numbers > MAX_KEPT_WORKSPACE:
        return torch.empty(numbers, dtype=torch.float32, device="cpu")
    if getattr(_own, "workspace", None) is None:
        _own.workspace = torch.empty(MAX_KEPT_WORKSPACE, dtype=torch.float32, device="cpu")
    kept: Tensor = _own.workspace
    return kept


def _may_infer() -> bool:
    """Whether an inference function may run here: nobody wants a graph, another dtype, or to see the operation."""
    return (
        torch.is_inference_mode_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not _num_dispatch_modes()
        and library() is not None
    )


def _are_floats(*tensors: Tensor) -> bool:
    return _are_plain(torch.float32, *tensors)


def _are_plain(dtype: torch.dtype, *tensors: Tensor) -> bool:
    """Whether all are ordinary tensors of this dtype in the memory of the CPU."""
    for each in tensors:
        if type(each) not in _TENSORS or each.dtype is not dtype or not each.is_cpu:
            return False
        if each.layout is not torch.strided or each.is_nested or each.is_neg():
            return False
    return True


def _have_no_graph(*tensors: Tensor) -> bool:
    """Whether all are plain float32 tensors whose changes autograd need not know of."""
    if _num_dispatch_modes() or not _are_floats(*tensors):
        return False
    if not torch.is_inference_mode_enabled() and any(each.is_inference() for each in tensors):
        return False  # torch refuses to write to those
    return not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))


def _has_size(states: Tensor, inputs: int) -> bool:
    return states.dim() > 0 and states.shape[-1] == inputs and states.numel() > 0


def _is_vector(tensor: Tensor, size: int) -> bool:
    return tensor.shape == (size,) and tensor.is_contiguous()


def _are_ascending(columns: Tensor, inputs: int) -> bool:
    """Whether these are different indices below `inputs`, in ascending order."""
    numbers = [-1, *columns.tolist(), inputs]
    return all(before < after for before, after in pairwise(numbers))


def _mask_strides(allowed: Tensor, shape: tuple[int, int, int, int]) -> list[int] | None:
    """The strides of a mask as if it were expanded to this shape, or None if it cannot be."""
    strides = [0] * (4 - allowed.dim())
    for size, stride, wanted in zip(allowed.shape, allowed.stride(), shape[len(strides) :], strict=True):
        if size != wanted and size != 1:
            return None
        strides.append(stride if size == wanted else 0)
    return strides


def _direction_rows(tensor: Tensor, directions: int, rows: int, width: int) -> int | None:
    """How many rows of `width` numbers lie between two directions, if [directions, rows, width] is laid out so."""
    if tensor.shape != (directions, rows, width) or not directions * rows * width:
        return None
    between, row, number = tensor.stride()
    return between // width if number == 1 and row == width and between % width == 0 else None


Span = tuple[int, int]  # first byte, and the byte behind the last


def _span(pointer: int, numbers: int) -> Span:
    return pointer, pointer + numbers * FLOAT_BYTES


def _spans(pointer: int, directions: int, apart: int, numbers: int) -> list[Span]:
    """The memory of each direction."""
    return [_span(pointer + number * apart * FLOAT_BYTES, numbers) for number in range(directions)]


def _overlap(written: list[Span], read: list[Span]) -> bool:
    """Whether any memory that is written is read or written elsewhere, too."""
    end_of_any = end_of_written = 0
    for (start, end), writes in sorted([*((span, True) for span in written), *((span, False) for span in read)]):
        if start < end_of_written or (writes and start < end_of_any):
            return True
        end_of_any = max(end_of_any, end)
        if writes:
            end_of_written = max(end_of_written, end)
    return False


def _pointers(*tensors: Tensor | None) -> list[int] | None:
    """Where the tensors lie, 0 for None. None if one has no memory, as inside of vmap, grad and functionalize, or if
    one begins between two numbers, as `torch.frombuffer` allows."""
    found = []
    try:
        for each in tensors:
            if each is None:
                found.append(0)
                continue
            pointer = each.data_ptr()
            if not pointer or (pointer & 3 and pointer % each.element_size()):
                return None
            found.append(pointer)
    except RuntimeError:
        return None
    return found
