"""Faster products while a model only reads.

A few rows are multiplied by a kernel of our own, which reads matrices as they lie (regard.kernels). More are multiplied
by oneDNN, up to twice as fast as by torch's own product if the matrix lies in the order in which its kernel takes it:
`python -m benchmarks products`. Putting it so costs as much as a product with many rows, so it is done once enough of
them have come, and forgotten at the end of the block. A model that was loaded to be read remembers it for the next
(`python -m benchmarks single`), in which every matrix is looked through for changes before it is used. So a weight
changed before a block is seen, and one changed inside it is not.

The operators are those that torch's compiler calls; they are named here and in regard.layers.products. Where they are
missing (other processors, GPUs) and where gradients are wanted, everything stays as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.kernels import ops
from regard.layers.blocks import FeedForward
from regard.layers.products import has_onednn, is_bias

FEWEST = 2**17  # numbers in a matrix that is worth the call
MOST = 2**29  # numbers in all matrices of a model: two gigabytes are not held twice
ENOUGH = 64  # rows of a block before a matrix is put in order: a short text alone is faster without
ROWS = 32  # the order of a matrix is the same for any number of rows but one
# What oneDNN can do to a product before it writes it, by the names of regard.layers.blocks.
BEHIND: dict[str, tuple[str, list[float], str]] = {
    "none": ("none", [], ""),
    "relu": ("none", [], ""),  # of NaN, oneDNN's relu makes 0
    "gelu": ("gelu", [], "none"),
    "gelu_tanh": ("gelu", [], "tanh"),
    "silu": ("swish", [], ""),
}
Linear = Callable[[Tensor], Tensor]
Orders = dict[Any, "_Order"]  # of the matrices of a module, by what is done with them
_REMEMBERED: WeakKeyDictionary[nn.Module, Orders] = WeakKeyDictionary()
_ENTERING = Lock()  # two threads may enter blocks of the same model


def remember_order(model: nn.Module) -> None:
    """From now on, a matrix of this model that one block has put in order is so in the next. It is held twice then, as
    long as the model is: for one that is there to be read, not for one that learns."""
    for module in model.modules():
        _REMEMBERED.setdefault(module, {})


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Inside the block, products with the model's large matrices run as oneDNN's wherever no gradient is wanted."""
    entered: list[tuple[dict[str, Any], str, Any]] = []
    if _available() and sum(parameter.numel() for parameter in model.parameters()) <= MOST:
        with _ENTERING:
            for module in model.modules():
                entered += [(vars(module), *each) for each in _enter(module)]
    try:
        yield
    finally:
        with _ENTERING:
            for own, name, faster in entered:
                faster.blocks -= 1
                if not faster.blocks:
                    del own[name]


def _enter(module: nn.Module) -> list[tuple[str, Any]]:
    """Puts faster methods into a module, where they are found before its own, unless another block has done so: of this
    thread, around this block, or of another thread. The last one to leave takes them out."""
    found: list[tuple[str, Any]] = []
    if isinstance(module, nn.Linear | FeedForward) or hasattr(type(module), "logits"):
        for name, faster in _faster(module, _orders(module)).items():
            used = vars(module).setdefault(name, faster)
            if isinstance(used, _Product | _Parts):  # and not the int8 product of a model in 8 bits
                used.blocks += 1
                found.append((name, used))
    return found


def product(weight: Float[Tensor, "outputs inputs"]) -> Linear:
    """x -> x W^T for many rows, one after the other, while a matrix stays as it is."""
    plain = partial(F.linear, weight=weight)
    return _Product(weight, None, plain, _Order()) if _available() and _fits(weight) else plain


def _orders(module: nn.Module) -> Orders:
    """Those that a block before has left, or a place for those of this one."""
    return _REMEMBERED.get(module, {}) if ops.is_available() else {}  # else there is nobody to look for changes


def _faster(module: Any, orders: Orders) -> dict[str, Any]:
    """Methods of a module that are products with a matrix of its own, and what does them faster."""

    def faster(name: str, weight: Any, bias: Any, activation: str = "none") -> _Product:
        plain = partial(getattr(type(module), name), module)
        return _Product(weight, bias, plain, orders.setdefault(name, _Order()), activation)

    if isinstance(module, nn.Linear):
        found: dict[str, Any] = {}
        if _fits(module.weight):
            found["forward"] = faster("forward", module.weight, module.bias)
            if hasattr(module, "rows"):
                found["rows"] = _Parts(module, orders)
        return found
    if isinstance(module, FeedForward) and isinstance(module.expand, nn.Linear) and _fits(module.expand.weight):
        return {"activated": faster("activated", module.expand.weight, module.expand.bias, module.kind)}
    if hasattr(type(module), "logits") and hasattr(module, "output_weight") and _fits(module.output_weight):
        bias = getattr(module, "output_bias", None)
        return {"logits": faster("logits", module.output_weight, None if bias is None else bias.squeeze(1))}
    return {}


def _fits(weight: Any) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.layout is torch.strided
        and weight.dim() == 2
        and weight.numel() >= FEWEST
        and weight.is_contiguous()
    )


class _Order:
    """A matrix as oneDNN takes it, once it is worth the work. It knows no module, which would never be forgotten."""

    def __init__(self) -> None:
        self.matrix: Tensor | None = None
        self.made_of: int | None = None  # the fingerprint of the weight as it was

    def of(self, weight: Float[Tensor, "outputs inputs"]) -> Tensor:
        """The matrix of this weight, from the block before if nothing has changed since."""
        known = ops.fingerprint(weight)
        matrix = self.matrix
        if matrix is None or known is None or known != self.made_of:
            matrix = torch.ops.mkldnn._reorder_linear_weight.default(weight, ROWS)
            self.matrix, self.made_of = matrix, known
        return matrix


class _Product:
    """x -> f(W x + b); `plain` is the same, without any trick."""

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None,
        plain: Linear,
        order: _Order,
        activation: str = "none",
    ):
        # Tensors, whose properties are read in half the time that those of parameters take.
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.plain, self.order, self.activation = plain, order, activation
        self.behind, self.inputs = BEHIND[activation], weight.shape[1]
        self.seen = 0  # rows that have come in this block
        self.ordered: Tensor | None = None  # once they were enough
        self.blocks = 0  # that use it at the moment

    def __call__(self, states: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        rows = states.numel() // self.inputs
        if rows <= ops.MAX_ROWS:
            result = ops.linear(states, self.weight, self.bias, self.activation)
            if result is not None:
                return result
        if not self._can_use_onednn(states):
            return self.plain(states)
        matrix = self.weight if rows == 1 else self._in_order(rows)  # a single row reads the matrix as it lies
        if matrix is not None and matrix.shape[1] == states.shape[-1]:
            product: Tensor = torch.ops.mkldnn._linear_pointwise.default(states, matrix, self.bias, *self.behind)
            return product.relu_() if self.activation == "relu" else product
        result = ops.linear(states, self.weight, self.bias, self.activation) if rows <= ops.MAX_ROWS_UNPACKED else None
        return self.plain(states) if result is None else result

    def _can_use_onednn(self, states: Tensor) -> bool:
        """Whether oneDNN may multiply: it gets no operands of another shape, dtype or kind, and computes no gradient.
        Of a bias it reads as many numbers as there are outputs, one after the other, wherever they lie."""
        return (
            not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and ops.is_ordinary(states, self.weight)
            and states.dim() > 0
            and states.numel() > 0
            and states.shape[-1] == self.weight.shape[1]
            and (self.bias is None or is_bias(self.bias, self.weight.shape[0]))
        )

    def _in_order(self, rows: int) -> Tensor | None:
        """None: too few rows have come for it."""
        if self.ordered is None:
            self.seen += rows
            if self.seen >= ENOUGH:
                self.ordered = self.order.of(self.weight)
        return self.ordered


class _Parts:
    """Some of the outputs alone (regard.attention.multihead.Projection)."""

    def __init__(self, layer: Any, orders: Orders):
        self.layer, self.orders = layer, orders
        self.products: dict[tuple[int, int], _Product] = {}
        self.blocks = 0  # that use it at the moment

    def __call__(self, states: Float[Tensor, "*batch inputs"], start: int, stop: int) -> Float[Tensor, "*batch part"]:
        if (start, stop) not in self.products:
            weight, bias = self.layer.weight[start:stop], self.layer.bias
            plain = partial(type(self.layer).rows, self.layer, start=start, stop=stop)
            order = self.orders.setdefault((start, stop), _Order())
            self.products[start, stop] = _Product(weight, None if bias is None else bias[start:stop], plain, order)
        return self.products[start, stop](states)


def _available() -> bool:
    return (
        has_onednn()
        and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
