"""Calls of everything that reaches the C kernels, with operands and modes of torch that may be wrong or unusual."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten

import regard
from fuzz.operands import spoilt
from regard.attention import MultiHeadAttention, dot_product
from regard.kernels import ops, reference
from regard.layers import gru_step, packed, packed_gru, products
from regard.layers.blocks import BlockSizes, FeedForward, Residual
from regard.layers.cross_entropy import linear_cross_entropy
from regard.layers.int8 import Int8Linear

FAILURES = ("another result", "only the kernels raise", "only torch raises", "the process ended")
Call = Callable[[list[Any]], Any]
SMALL = [1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33]


def prepare() -> None:
    """Settings of the process: small products are large enough for everything, and warnings are of no interest."""
    warnings.simplefilter("ignore")
    packed.FEWEST, packed.ENOUGH, products.LEAST = 1, 4, 1
    torch.set_num_threads(2)


class Made:
    """Random sizes and tensors of a case."""

    def __init__(self, random: Random):
        self.random = random
        self.generator = torch.Generator().manual_seed(random.randrange(2**31))

    def size(self) -> int:
        return self.random.choice(SMALL)

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def flags(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator) > 0.3

    def module(self, module: nn.Module) -> nn.Module:
        """With parameters that the seed decides."""
        for parameter in module.parameters():
            parameter.data = self.numbers(*parameter.shape) / 4
        return module.eval()


# Each returns operands that suit, and the call. A call that writes returns what it has written.


def attend(made: Made) -> tuple[list[Any], Call]:
    return _attend(made, regard.attend)


def attend_and_keep(made: Made) -> tuple[list[Any], Call]:
    return _attend(made, lambda *given, **named: dot_product.attend(*given, keep=True, **named))


def _attend(made: Made, function: Any) -> tuple[list[Any], Call]:
    batch, heads, queries, count, size = (made.size() for _ in range(5))
    size = made.random.choice([size, 16, 32])
    mask = made.random.choice([None, made.flags(batch, 1, 1, count), made.flags(1, heads, queries, count)])
    causal = made.random.random() < 0.3 and queries <= count
    shapes = [(batch, heads, length, size) for length in (queries, count, count)]
    window = made.random.choice([None, None, None, 2])

    def call(given: list[Any]) -> Any:
        found = function(*given[:3], mask=given[3], causal=causal, window=window)
        return found.context, found.weights

    return [*(made.numbers(*shape) for shape in shapes), mask], call


def multihead(made: Made) -> tuple[list[Any], Call]:
    batch, length, heads = made.size(), made.size(), made.random.choice([1, 2])
    layer: Any = made.module(MultiHeadAttention(32 * heads, heads))
    causal = made.random.random() < 0.5
    mask = made.random.choice([None, made.flags(batch, length)])
    return [
        made.numbers(batch, length, 32 * heads),
        mask,
    ], lambda given: layer(given[0], mask=given[1], causal=causal).context


def packed_linear(made: Made) -> tuple[list[Any], Call]:
    inputs, outputs = made.size(), made.size()
    layer = made.module(nn.Linear(inputs, outputs, bias=made.random.random() < 0.7))

    def call(given: list[Any]) -> Any:
        with packed.packed(layer):
            return [layer(given[0]) for _ in range(2)]

    return [made.numbers(made.size(), made.size(), inputs)], call


def packed_linear_with_other_weight(made: Made) -> tuple[list[Any], Call]:
    inputs, outputs = made.size(), made.size()

    def call(given: list[Any]) -> Any:
        layer = nn.Linear(inputs, outputs)
        layer._parameters.update(weight=given[1], bias=given[2])
        with packed.packed(layer):
            return layer(given[0])

    return [made.numbers(made.size(), inputs), made.numbers(outputs, inputs), made.numbers(outputs)], call


def packed_feed_forward(made: Made) -> tuple[list[Any], Call]:
    size, activation = made.size(), made.random.choice(["relu", "gelu", "gelu_tanh", "silu"])
    layer = made.module(FeedForward(size, made.size(), activation))

    def call(given: list[Any]) -> Any:
        with packed.packed(layer):
            return layer(given[0])

    return [made.numbers(made.size(), made.size(), size)], call


def int8_forward(made: Made) -> tuple[list[Any], Call]:
    layer, operands = _int8(made)
    return operands, lambda given: layer(given[0])


def int8_rows(made: Made) -> tuple[list[Any], Call]:
    layer, operands = _int8(made)
    start, stop = made.random.randrange(-2, 20), made.random.randrange(0, 40)
    return operands, lambda given: layer.rows(given[0], start, stop)


def int8_buffers(made: Made) -> tuple[list[Any], Call]:
    """An int8 layer whose buffers, as of a file, are the operands."""
    layer, operands = _int8(made)
    names = ["weight", "scale", "bias", "columns", "whole"]

    def call(given: list[Any]) -> Any:
        for name, value in zip(names, given[1:], strict=True):
            setattr(layer, name, value)
        return layer(given[0])

    buffers = [getattr(layer, name) for name in names]
    if made.random.random() < 0.3:
        buffers[3] = torch.randint(-3, 40, buffers[3].shape, generator=made.generator)
    return [*operands, *buffers], call


def _int8(made: Made) -> tuple[Int8Linear, list[Any]]:
    inputs, outputs = made.size(), made.size()
    columns = torch.randperm(inputs, generator=made.generator)[: made.random.choice([0, 1, 3])].sort().values
    activation = made.random.choice(ops.ACTIVATIONS)
    layer = Int8Linear.of(made.numbers(outputs, inputs), made.numbers(outputs), columns, activation)
    return layer, [made.numbers(made.size(), inputs)]


def residual(made: Made) -> tuple[list[Any], Call]:
    size = made.size()
    layer = made.module(Residual(BlockSizes(size, size, 1, 0.0, pre_norm=False)))
    operands = [made.numbers(made.size(), made.size(), size)] * 2
    return operands, lambda given: layer(given[0], lambda states: given[1])


def products_linear(made: Made) -> tuple[list[Any], Call]:
    inputs, outputs = made.size(), made.size()
    operands = [made.numbers(made.size(), made.size(), inputs), made.numbers(outputs, inputs), made.numbers(outputs)]
    operands[0].requires_grad_(made.random.random() < 0.5)

    def call(given: list[Any]) -> Any:
        result = products.linear(*given)
        if result.requires_grad and given[0].requires_grad:
            return result, *torch.autograd.grad(result.sum(), given[:1])
        return result

    return operands, call


def products_multiply(made: Made) -> tuple[list[Any], Call]:
    inputs, outputs = made.size(), made.size()
    operands = [made.numbers(made.size(), inputs), made.numbers(outputs, inputs), made.numbers(outputs)]

    def call(given: list[Any]) -> Any:
        with torch.autocast("cpu", enabled=False):  # as everywhere where it is called
            return products.multiply(*given)

    return operands, call


def products_add_outer(made: Made) -> tuple[list[Any], Call]:
    rows, inputs, outputs = made.size(), made.size(), made.size()
    operands = [made.numbers(outputs, inputs), made.numbers(rows, outputs), made.numbers(rows, inputs)]

    def call(given: list[Any]) -> Any:
        if given[0].shape != (given[1].shape[-1], given[2].shape[-1]):
            raise ValueError("torch.addmm resizes such an `out`, and adds what lies there")
        return products.add_outer(*given)

    return operands, call


def gru(made: Made) -> tuple[list[Any], Call]:
    rows, size = made.size(), made.size()
    operands = [made.numbers(rows, 3 * size), made.numbers(rows, 3 * size), made.numbers(rows, size)]
    return operands, lambda given: gru_step.step(*given)


def gru_rows(made: Made) -> tuple[list[Any], Call]:
    batch, length, inputs, size = (made.random.choice(SMALL[:8]) for _ in range(4))
    layer: Any = made.module(nn.GRU(inputs, size, batch_first=True, bidirectional=made.random.random() < 0.5))
    return [made.numbers(batch, length, inputs), made.flags(batch, length)], lambda given: packed_gru.read_rows(
        layer, given[0], given[1]
    )


def cross_entropy(made: Made) -> tuple[list[Any], Call]:
    rows, size, words = made.size(), made.size(), made.size()
    targets = torch.randint(words, (rows,), generator=made.generator)
    if made.random.random() < 0.2:
        targets[-1] = made.random.choice([-1, -100, words, 2**40])
    operands = [made.numbers(rows, size), made.numbers(words, size), targets]
    smoothing = made.random.choice([0.0, 0.1])
    operands[0].requires_grad_(made.random.random() < 0.5)

    def call(given: list[Any]) -> Any:
        loss, each = linear_cross_entropy(*given, smoothing)
        return (loss, each, *(torch.autograd.grad(loss, given[:1]) if loss.requires_grad else ()))

    return operands, call


def _direct(name: str, equation: Callable[..., Any], writes: int = 0) -> Callable[[list[Any]], Any]:
    """A function of ops; where it declines, its equation. Of one that writes, the first operands are the result."""

    def call(given: list[Any]) -> Any:
        found = getattr(ops, name)(*given)
        if found is None or found is False:
            found = equation(*given)
        return given[:writes] if writes else found

    return call


def ops_linear(made: Made) -> tuple[list[Any], Call]:
    inputs, outputs = made.size(), made.size()
    call = _direct("linear", reference.linear)
    activation = made.random.choice(ops.ACTIVATIONS)
    operands = [made.numbers(made.size(), inputs), made.numbers(outputs, inputs), made.numbers(outputs)]
    return operands, lambda given: call([*given, activation])


def ops_add_norm(made: Made) -> tuple[list[Any], Call]:
    rows, size = made.size(), made.size()
    operands = [made.numbers(rows, size), made.numbers(rows, size), made.numbers(size), made.numbers(size)]
    call = _direct("add_norm", reference.add_norm)
    return operands, lambda given: call([*given, 1e-5])


def _ops_attention(made: Made, name: str, equation: Callable[..., Any]) -> tuple[list[Any], Call]:
    batch, heads, queries, count = (made.size() for _ in range(4))
    size = made.random.choice([1, 5, 16, 16, 32])
    mask = made.random.choice([None, made.flags(batch, 1, 1, count), made.flags(1, heads, queries, count)])
    causal = made.random.random() < 0.3 and queries <= count
    operands = [made.numbers(batch, heads, length, size) for length in (queries, count, count)]
    call = _direct(name, equation)
    return [*operands, mask], lambda given: call([*given, causal, 0.3])


def ops_attention(made: Made) -> tuple[list[Any], Call]:
    return _ops_attention(made, "attention", lambda *given: reference.attention(*given)[0])


def ops_attention_with_weights(made: Made) -> tuple[list[Any], Call]:
    return _ops_attention(made, "attention_with_weights", reference.attention)


def ops_accumulate(made: Made) -> tuple[list[Any], Call]:
    rows, inputs, outputs = made.size(), made.size(), made.size()
    operands = [made.numbers(outputs, inputs), made.numbers(rows, outputs), made.numbers(rows, inputs)]
    return operands, _direct("accumulate_weight_grad", reference.accumulate_weight_grad, 1)


def ops_gru_step(made: Made) -> tuple[list[Any], Call]:
    shape, size = (made.random.choice([1, 2]), made.size()), made.size()
    widths = [size, 3 * size, 3 * size, 3 * size, size]
    return [made.numbers(*shape, width) for width in widths], _direct("gru_step", reference.gru_step, 2)


def ops_gru_step_backward(made: Made) -> tuple[list[Any], Call]:
    shape, size = (made.random.choice([1, 2]), made.size()), made.size()
    widths = [3 * size, 3 * size, size, size, 3 * size, 3 * size, size]
    call = _direct("gru_step_backward", reference.gru_step_backward, 3)
    return [made.numbers(*shape, width) for width in widths], call


def ops_fingerprint(made: Made) -> tuple[list[Any], Call]:
    """The number itself is no matter of torch: it is the same for the same numbers."""

    def call(given: list[Any]) -> Any:
        found = ops.fingerprint(given[0])
        copied = ops.fingerprint(given[0].detach().clone())  # none of a FakeTensor
        return None if None in (found, copied) or found == copied else "another number"

    return [made.numbers(made.size(), made.size())], call


def ops_questions(made: Made) -> tuple[list[Any], Call]:
    """Questions about tensors have no result to compare: they must give an answer."""
    operands = [made.numbers(made.size()), made.flags(made.size())]

    def call(given: list[Any]) -> Any:
        assert isinstance(ops.is_ordinary(given[0]), bool)
        assert isinstance(ops.can_look_at(given[1]), bool)

    return operands, call


FUNCTIONS: dict[str, Callable[[Made], tuple[list[Any], Call]]] = {
    "regard.attend": attend,
    "attention.dot_product.attend(keep=True)": attend_and_keep,
    "MultiHeadAttention.forward": multihead,
    "packed nn.Linear": packed_linear,
    "packed nn.Linear of another weight": packed_linear_with_other_weight,
    "packed FeedForward": packed_feed_forward,
    "Int8Linear.forward": int8_forward,
    "Int8Linear.rows": int8_rows,
    "Int8Linear.forward of other buffers": int8_buffers,
    "Residual.forward": residual,
    "products.linear": products_linear,
    "products.multiply": products_multiply,
    "products.add_outer": products_add_outer,
    "gru_step.step": gru,
    "packed_gru.read_rows": gru_rows,
    "linear_cross_entropy": cross_entropy,
    "ops.linear": ops_linear,
    "ops.add_norm": ops_add_norm,
    "ops.attention": ops_attention,
    "ops.attention_with_weights": ops_attention_with_weights,
    "ops.accumulate_weight_grad": ops_accumulate,
    "ops.gru_step": ops_gru_step,
    "ops.gru_step_backward": ops_gru_step_backward,
    "ops.fingerprint": ops_fingerprint,
    "ops.is_ordinary, ops.can_look_at": ops_questions,
}

# Modes of torch.


def in_inference(call: Call, operands: list[Any]) -> Any:
    with torch.inference_mode():
        return call(operands)


def in_autocast(call: Call, operands: list[Any]) -> Any:
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        return call(operands)


def without_gradient(call: Call, operands: list[Any]) -> Any:
    with torch.no_grad():
        return call(operands)


def with_gradient(call: Call, operands: list[Any]) -> Any:
    return call(operands)


def among_fakes(call: Call, operands: list[Any]) -> Any:
    with torch.inference_mode(), FakeTensorMode(allow_non_fake_inputs=True):
        return call(operands)


def traced(call: Call, operands: list[Any]) -> Any:
    with torch.inference_mode():
        graph = make_fx(lambda first: call([first, *operands[1:]]))(operands[0])
        return graph(operands[0])


def mapped(call: Call, operands: list[Any]) -> Any:
    with torch.inference_mode():
        return torch.func.vmap(lambda first: call([first, *operands[1:]]))(torch.stack([operands[0], operands[0]]))


def differentiated(call: Call, operands: list[Any]) -> Any:
    def total(first: Tensor) -> Tensor:
        return sum(each.sum() for each in tree_flatten(call([first, *operands[1:]]))[0])

    return torch.func.grad(total)(operands[0])


def pushed_forward(call: Call, operands: list[Any]) -> Any:
    return torch.func.jvp(lambda first: call([first, *operands[1:]]), (operands[0],), (operands[0],))


TRANSFORMS = [with_gradient, without_gradient, in_autocast, among_fakes, traced, mapped, differentiated]
# Not torch.func.functionalize: after some of its exceptions, torch ends the process later, even without kernels.
MODES = [*[in_inference] * 8, *TRANSFORMS, pushed_forward]


class Case:
    """One call, decided by its seed and number."""

    def __init__(self, seed: int, number: int):
        self.seed, self.number = seed, number
        random = Random(f"{seed} {number}")
        self.name = random.choice(list(FUNCTIONS))
        self.mode = random.choice(MODES)
        self.rest = random.getrandbits(64)

    def __str__(self) -> str:
        changed = "; ".join(self.operands()[2]) or "operands that suit"
        return f"{self.name}, {self.mode.__name__}, {changed}"

    def operands(self) -> tuple[list[Any], Call, list[str]]:
        random = Random(self.rest)
        operands, call = FUNCTIONS[self.name](Made(random))
        changed, notes = spoilt(operands, random)
        return changed, call, notes

    def result(self, with_kernels: bool) -> tuple[bool, Any]:
        """Whether there is a result, and this or the exception."""
        operands, call, _ = self.operands()
        if self.mode in (mapped, differentiated, pushed_forward) and any(map(is_sparse, operands)):
            return False, ValueError("after function transforms of such tensors, torch ends the process later")
        with contextlib.nullcontext() if with_kernels else plain():
            try:
                return True, self.mode(call, operands)
            except Exception as error:
                return False, error

    def outcome(self) -> dict[str, Any]:
        """What came of the case: a kind, and what it was if it is a failure."""
        (in_torch, wanted), (in_kernels, found) = self.result(False), self.result(True)
        if in_torch and in_kernels:
            # Of tensors without numbers, torch computes what happens to lie in the memory of the result.
            numbers = not any(word in str(self) for word in (" meta ", "FakeTensor")) and self.mode is not among_fakes
            hides = not self.name.startswith("ops.attention")
            is_coarse = self.mode is in_autocast or self.name.startswith("Int8")  # which may round a tie otherwise
            difference = compare(found, wanted, numbers, hides, 3e-2 if is_coarse else 2e-3)
            kind, what = ("another result", difference) if difference else ("the same result", "")
        elif in_torch or in_kernels:
            kind = "only torch raises" if in_kernels else "only the kernels raise"
            what = one_line(wanted if in_kernels else found)
        else:
            kind, what = "both raise", ""
        if kind in FAILURES:
            what = f"{self}: {what}"
        return {"kind": kind, "what": what, "function": self.name}


def is_sparse(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.layout is not torch.strided


def one_line(error: Any) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Inside the block, everything is computed by torch's own functions."""
    kept = ops.library, packed._available, products.are_better
    ops.library, packed._available, products.are_better = lambda: None, lambda: False, lambda: False  # type: ignore
    try:
        yield
    finally:
        ops.library, packed._available, products.are_better = kept  # type: ignore[assignment]


def compare(found: Any, wanted: Any, has_numbers: bool, hides: bool, tolerance: float) -> str:
    """How two results differ, or nothing. Of FakeTensors and the like, shapes alone are compared. If `hides`,
    NaN may be in one alone: torch's fused attention gives NaN for NaN hidden by a mask, and none for some NaN queries;
    oneDNN's gelu gives NaN for infinity, and `torch.lerp` for infinite states."""
    ours, theirs = tree_flatten(found)[0], tree_flatten(wanted)[0]
    if len(ours) != len(theirs):
        return f"{len(ours)} results in place of {len(theirs)}"
    pairs = zip(ours, theirs, strict=True)
    return next(filter(None, (_difference(*pair, has_numbers, hides, tolerance) for pair in pairs)), "")


def _difference(found: Any, wanted: Any, has_numbers: bool, hides: bool, tolerance: float) -> str:
    if not isinstance(found, Tensor) or not isinstance(wanted, Tensor):
        return "" if type(found) is type(wanted) and found == wanted else f"{found!r} in place of {wanted!r}"
    if type(found) is not type(wanted):
        return f"a {type(found).__name__} in place of a {type(wanted).__name__}"
    if found.is_nested and wanted.is_nested:
        return ""  # their lengths are symbols
    if found.dtype != wanted.dtype or found.device != wanted.device or found.layout != wanted.layout:
        return f"{found.dtype} {found.device} {found.layout}, not {wanted.dtype} {wanted.device} {wanted.layout}"
    try:
        if found.shape != wanted.shape:
            return f"shape {tuple(found.shape)} in place of {tuple(wanted.shape)}"
        if not has_numbers:
            return ""
        ours, theirs = map(_numbers, (found, wanted))
        if hides:
            unknown = ours.isnan() | theirs.isnan()
            ours, theirs = ours.masked_fill(unknown, torch.nan), theirs.masked_fill(unknown, torch.nan)
        tolerance = 3e-2 if found.dtype in (torch.bfloat16, torch.float16) else tolerance
        if torch.allclose(ours, theirs, atol=tolerance, rtol=tolerance, equal_nan=True):
            return ""
        most = float((ours - theirs).abs().nan_to_num(-1).max())
        return f"differs by up to {most:.3g}, {int(ours.isnan().sum())} and {int(theirs.isnan().sum())} are NaN"
    except (RuntimeError, NotImplementedError, TypeError):
        return ""  # of tensors without numbers: FakeTensor and the like


def _numbers(tensor: Tensor) -> Tensor:
    tensor = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
    return tensor.as_subclass(Tensor).to(torch.complex128)
