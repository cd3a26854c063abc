"""Every kernel against its equation in torch: random shapes, strides, tails, threads, NaN and infinities, misaligned
storage. `make sanitize` runs the same with more examples, in libraries that AddressSanitizer and UBSan watch.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.kernels import ops, reference

pytestmark = pytest.mark.skipif(not ops.is_available(), reason="there is no C compiler here, or no GNU OpenMP")
EXAMPLES: Counter[str] = Counter()  # how many each property has checked; tests/kernels/sanitize.py prints it
OPTIONS: Any = dict(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
CANARY = 7.0
Make = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True, scope="module")
def inference() -> Iterator[None]:
    threads = torch.get_num_threads()
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "available_cpus", lambda: 4)
        yield
    torch.set_num_threads(threads)


# Tensors: their numbers and how they lie in memory.


def in_the_middle(tensor: Tensor) -> Tensor:
    """Canaries before and after it: what writes outside of it changes one."""
    room = torch.full((tensor.numel() + 21,), CANARY).to(tensor.dtype)
    return room[7 : 7 + tensor.numel()].view(tensor.shape).copy_(tensor)


def at_the_end(tensor: Tensor) -> Tensor:
    """Behind three numbers, so that it is not aligned; nothing follows it in the storage."""
    return torch.cat([torch.zeros(3, dtype=tensor.dtype), tensor.flatten()])[3:].view(tensor.shape)


def between_bytes(tensor: Tensor) -> Tensor:
    """From an odd address."""
    if not tensor.numel():
        return tensor.clone()
    memory = bytearray(tensor.nbytes + 1)
    return torch.frombuffer(memory, dtype=tensor.dtype, offset=1).view(tensor.shape).copy_(tensor)


def transposed(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() < 2 else tensor.mT.contiguous().mT


def every_second(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, tensor], dim=-1)[..., 0] if tensor.dim() else tensor.clone()


def part_of_rows(tensor: Tensor) -> Tensor:
    """The first numbers of longer rows."""
    return torch.cat([tensor, torch.zeros_like(tensor)], dim=-1)[..., : tensor.shape[-1]]


def expanded(tensor: Tensor) -> Tensor:
    """All entries of the first dimension lie in the memory of the first one, whose numbers they get."""
    return tensor[:1].clone().expand(tensor.shape)


CONTIGUOUS: list[Make] = [torch.clone, in_the_middle, at_the_end]
STRIDED: list[Make] = [*CONTIGUOUS, transposed, every_second, part_of_rows, expanded, between_bytes]
contiguous, strided = st.sampled_from(CONTIGUOUS), st.sampled_from(STRIDED)
# Where kernels take no others, most are contiguous, or have contiguous rows.
mostly_contiguous = st.sampled_from([*CONTIGUOUS * 4, transposed, every_second, part_of_rows, between_bytes])
mostly_rows = st.sampled_from([*[*CONTIGUOUS, part_of_rows, expanded] * 4, transposed, every_second, between_bytes])


@dataclass
class Numbers:
    """Random numbers from a seed; some of them NaN, infinities or zeros, if they are wanted."""

    seed: int
    special: tuple[float, ...]

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)

    def __call__(self, *shape: int) -> Tensor:
        numbers = torch.randn(shape, generator=self.generator)
        for value in self.special if numbers.numel() else ():
            numbers.view(-1)[self.below(numbers.numel())] = value
        return numbers

    def ordinary(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def below(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.generator))

    def flags(self, *shape: int) -> Tensor:
        """Mostly true; some rows have none."""
        found = torch.rand(shape, generator=self.generator) > 0.3
        return found & (torch.rand((*shape[:-1], 1), generator=self.generator) > 0.1)


SPECIAL = [(), (), (), (math.nan,), (math.inf,), (-math.inf,), (0.0, math.nan), (math.inf, -math.inf)]
numbers = st.builds(Numbers, st.integers(0, 2**31), st.sampled_from(SPECIAL))
few = st.integers(1, 20).map(lambda number: 1 + number % 4 if number < 20 else 0)  # seldom 0
around_vectors = st.sampled_from([width + step for width in (4, 8, 16, 32, 64) for step in (-1, 0, 1)])
sizes = st.one_of(few, around_vectors, st.integers(1, 150))
threads = st.integers(1, 4)


def count(name: str) -> None:
    EXAMPLES[name] += 1


def assert_same(found: Tensor, wanted: Tensor, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """NaN and infinities at the same positions, all else close."""
    torch.testing.assert_close(found, wanted, atol=atol, rtol=rtol, equal_nan=True)


def is_aligned(*tensors: Tensor | None) -> bool:
    return all(each is None or each.data_ptr() % each.element_size() == 0 for each in tensors)


def assert_canaries(tensor: Tensor) -> None:
    """If it lies between canaries: they are what they were."""
    room = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    if room.numel() == tensor.numel() + 21:
        assert bool((room[:7] == CANARY).all()), "a kernel has written before the tensor"
        assert bool((room[7 + tensor.numel() :] == CANARY).all()), "a kernel has written behind the tensor"


# The properties.


@given(
    numbers, st.lists(few, max_size=2), sizes, sizes, st.sampled_from(ops.ACTIVATIONS), st.booleans(),
    strided, mostly_contiguous, mostly_contiguous, threads,
)  # fmt: skip
@settings(**OPTIONS)
def test_linear(
    numbers: Numbers, batch: list[int], outputs: int, inputs: int, activation: str, has_bias: bool,
    of_states: Make, of_weight: Make, of_bias: Make, threads: int,
) -> None:  # fmt: skip
    torch.set_num_threads(threads)
    states, weight = of_states(numbers(*batch, inputs)), of_weight(numbers(outputs, inputs) / math.sqrt(inputs + 1))
    bias = of_bias(numbers(outputs)) if has_bias else None
    found = ops.linear(states, weight, bias, activation)
    operands = [states, weight] if bias is None else [states, weight, bias]
    if all(each.numel() for each in operands) and all(each.is_contiguous() for each in operands[1:]):
        assert (found is not None) == is_aligned(states.contiguous(), *operands[1:])
    else:
        assert found is None
    if found is not None:
        count("linear_small")
        # In double precision, because oneDNN's gelu of infinity is NaN.
        wide = [None if each is None else each.double() for each in (states, weight, bias)]
        assert_same(found, reference.linear(*wide, activation).float())


@given(numbers, st.lists(few, max_size=2), sizes, strided, strided, mostly_contiguous, contiguous, threads)
@settings(**OPTIONS)
def test_add_norm(
    numbers: Numbers, batch: list[int], size: int, of_states: Make, of_added: Make, of_weight: Make, of_bias: Make,
    threads: int,
) -> None:  # fmt: skip
    torch.set_num_threads(threads)
    states, added = of_states(numbers(*batch, size)), of_added(numbers(*batch, size))
    weight, bias = of_weight(numbers(size)), of_bias(numbers(size))
    found = ops.add_norm(states, added, weight, bias, 1e-5)
    if states.numel() and weight.is_contiguous():
        assert (found is not None) == is_aligned(states.contiguous(), added.contiguous(), weight)
    else:
        assert found is None
    if found is not None:
        count("add_norm")
        # One number alone is normalised to 0 exactly, whatever its size.
        assert_same(found, reference.add_norm(states, added, weight, bias, 1e-5), atol=1e-4)


@given(
    numbers, st.lists(st.integers(0, 20), max_size=2), sizes, sizes, st.integers(0, 5),
    st.sampled_from(ops.ACTIVATIONS), st.booleans(), strided, strided, mostly_contiguous, threads,
)  # fmt: skip
@settings(**OPTIONS)
def test_linear_int8(
    numbers: Numbers, batch: list[int], outputs: int, inputs: int, outliers: int, activation: str, has_bias: bool,
    of_states: Make, of_weight: Make, of_scale: Make, threads: int,
) -> None:  # fmt: skip
    torch.set_num_threads(threads)
    columns = torch.randperm(inputs, generator=numbers.generator)[:outliers].sort().values
    weight = torch.randint(-64, 65, (outputs, inputs), generator=numbers.generator, dtype=torch.int8)
    weight = of_weight(weight.index_fill(1, columns, 0))
    scale, bias = of_scale(numbers.ordinary(outputs).abs() / 100), of_scale(numbers(outputs)) if has_bias else None
    outlier_weight = of_weight(numbers.ordinary(outputs, len(columns)))
    matrix = ops.Int8Matrix.pack(weight, scale, bias, columns, outlier_weight, activation)
    if not weight.numel():
        assert matrix is None
    if not ops.has_int8() or matrix is None:
        assert not ops.has_int8() or not weight.numel() or not scale.is_contiguous() or not is_aligned(scale)
        return
    # Eighths, at most 127 of them: integers of 8 bits hold such inputs exactly, so that rounding is no matter here.
    eighths = torch.randint(-127, 128, (*batch, inputs), generator=numbers.generator) / 8
    inner = [number for number in range(inputs) if number not in columns.tolist()]
    if inner:
        eighths[..., inner[0]] = 127 / 8
    eighths[..., columns] *= 100
    for value in numbers.special if eighths.numel() else ():
        eighths.view(-1)[numbers.below(eighths.numel())] = value
    states = of_states(eighths)
    before = states.clone()
    found = matrix(states)
    assert (found is not None) == bool(states.numel()) or not is_aligned(states)
    assert torch.equal(states.nan_to_num(), before.nan_to_num())
    if found is not None:
        count("linear_int8")
        wanted = reference.linear_int8(states, weight, scale, bias, columns, outlier_weight, activation)
        lost = torch.zeros((), dtype=torch.bool) if not numbers.special else _has_lost(states, columns)
        assert_same(found.masked_fill(lost, 0.0), wanted.masked_fill(lost, 0.0), atol=1e-2, rtol=1e-4)
        assert_canaries(states)


def _has_lost(states: Tensor, columns: Tensor) -> Tensor:
    """Rows where a special value replaced the largest: the others are no longer held exactly."""
    sizes = states.index_fill(-1, columns, 0.0).abs().amax(-1, keepdim=True)
    return (sizes != 127 / 8) & sizes.isfinite()


@dataclass
class Case:
    """Sizes of an attention, its mask and the layouts of its operands."""

    batch: int
    heads: int
    queries: int
    count: int
    size: int
    value_size: int
    mask: tuple[bool, ...] | None  # which of its dimensions are 1
    causal: bool
    heads_beside: bool  # all heads of a token lie together, as a projection writes them
    layouts: list[Make]


def cases(queries: Any, widths: Any, masks: Any) -> Any:
    every = [few, few, queries, sizes, widths, widths, masks, st.booleans(), st.booleans()]
    return st.builds(Case, *every, st.lists(mostly_rows, min_size=4, max_size=4))


def attended(numbers: Numbers, case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Query, keys, values and mask of a case. Scores stay small: all weights are normal numbers."""
    lengths = [(case.queries, case.size), (case.count, case.size), (case.count, case.value_size)]
    operands = []
    for (length, width), layout in zip(lengths, case.layouts, strict=False):
        if case.heads_beside:
            operands.append(layout(numbers(case.batch, length, case.heads, width)).transpose(1, 2))
        else:
            operands.append(layout(numbers(case.batch, case.heads, length, width)))
    if case.mask is None:
        return (*operands, None)
    full = (case.batch, case.heads, case.queries, case.count)
    shape = [1 if is_one else size for is_one, size in zip(case.mask, full, strict=True)]
    return (*operands, case.layouts[3](numbers.flags(*shape)) if 0 not in shape else numbers.flags(*shape))


any_mask = st.none() | st.tuples(st.booleans(), st.booleans(), st.booleans(), st.just(False))
key_mask = st.none() | st.tuples(st.booleans(), st.just(True), st.just(True), st.just(False))


@given(numbers, cases(st.integers(0, ops.MAX_DECODE_QUERIES), st.integers(1, 20) | around_vectors, any_mask), threads)
@settings(**OPTIONS)
def test_attention_decode(numbers: Numbers, case: Case, threads: int) -> None:
    torch.set_num_threads(threads)
    operands = attended(numbers, case)
    scale = 1 / math.sqrt(case.size + 1)
    found = ops.attention(*operands, case.causal, scale)
    if 0 in (case.batch, case.heads, case.queries, case.count, case.size, case.value_size):
        assert found is None
    elif all(each.stride(3) == 1 for each in operands[:3]) and is_aligned(*operands):
        assert found is not None
    if found is not None:
        count("attention_decode")
        assert_same(found, reference.attention(*operands, case.causal, scale)[0])


heads_of_vectors = st.sampled_from([ops.VECTOR * times for times in range(1, 6)])
many_queries = st.integers(ops.MAX_DECODE_QUERIES + 1, 80) | around_vectors.map(lambda size: size + 10)


@given(numbers, cases(many_queries, heads_of_vectors, key_mask), threads)
@settings(**OPTIONS)
def test_attention_prefill(numbers: Numbers, case: Case, threads: int) -> None:
    torch.set_num_threads(threads)
    case.causal = case.causal and case.mask is None and case.queries <= case.count
    operands = attended(numbers, case)
    scale = 1 / math.sqrt(case.size + 1)
    found = ops.attention_with_weights(*operands, case.causal, scale)
    if 0 in (case.batch, case.heads, case.count, case.size, case.value_size):
        assert found is None
    elif all(each.stride(3) == 1 for each in operands[:3]) and is_aligned(*operands):
        assert found is not None
    if found is not None:
        count("attention_prefill")
        for ours, equation in zip(found, reference.attention(*operands, case.causal, scale), strict=True):
            assert_same(ours, equation)
        alone = ops.attention(*operands, case.causal, scale)
        assert torch.equal(alone.nan_to_num(), found[0].nan_to_num())


@given(
    numbers, st.one_of(few, st.integers(1, 20), st.sampled_from([127, 128, 129, 260])), sizes, sizes,
    contiguous, strided, strided, threads,
)  # fmt: skip
@settings(**OPTIONS)
def test_accumulate_weight_grad(
    numbers: Numbers, rows: int, outputs: int, inputs: int, of_total: Make, of_grad: Make, of_states: Make, threads: int
) -> None:
    torch.set_num_threads(threads)
    total = of_total(numbers(outputs, inputs))
    grad_outputs, states = of_grad(numbers(rows, outputs)), of_states(numbers(rows, inputs))
    before = total.clone()
    done = ops.accumulate_weight_grad(total, grad_outputs, states)
    if is_aligned(grad_outputs, states):
        assert done == bool(rows and inputs and outputs >= ops.MIN_OUTPUTS)
    assert_canaries(total)
    if done:
        count("accumulate_weight_grad")
        reference.accumulate_weight_grad(before, grad_outputs, states)
        assert_same(total, before, atol=1e-4)
    else:
        assert torch.equal(total.nan_to_num(), before.nan_to_num())


@dataclass
class Steps:
    """A step of a GRU: part of the rows of longer tensors, as regard.layers.packed_gru has them."""

    directions: int
    rows: int
    size: int
    before: int  # rows that belong to other steps
    after: int
    layout: Make

    def part(self, whole: Tensor) -> Tensor:
        return whole[:, self.before : self.before + self.rows]

    def of(self, numbers: Numbers, width: int) -> Tensor:
        return self.layout(numbers(self.directions, self.before + self.rows + self.after, width))


steps = st.builds(
    Steps, few, few, sizes, st.integers(0, 2), st.integers(0, 2), st.sampled_from([*CONTIGUOUS, between_bytes])
)


def assert_others_kept(step: Steps, found: Tensor, before: Tensor) -> None:
    """The rows of other steps are as they were, and so is the memory around."""
    assert_canaries(found)
    for rows in (slice(0, step.before), slice(step.before + step.rows, None)):
        assert torch.equal(found[:, rows].nan_to_num(), before[:, rows].nan_to_num())


def check_step(step: Steps, name: str, written: list[Tensor], read: list[Tensor], is_infinite: bool) -> None:
    """`name` of ops writes to `written` what that of reference does, and nothing elsewhere."""
    before = [each.clone() for each in written]
    wanted = [each.clone() for each in written]
    done = getattr(ops, name)(*map(step.part, written), *map(step.part, read))
    everything = [*written, *read]
    if is_aligned(*everything):
        assert done == bool(step.directions * step.rows * step.size)
    for found, old in zip(written, before, strict=True):
        assert_others_kept(step, found, old)
        assert done or torch.equal(found.nan_to_num(), old.nan_to_num())
    if not done:
        return
    count(name)
    getattr(reference, name)(*map(step.part, wanted), *map(step.part, read))
    for found, expected in zip(map(step.part, written), map(step.part, wanted), strict=True):
        if is_infinite:  # (1 - z) n + z h and n + z (h - n) are infinite or NaN at the same positions
            found, expected = (each.nan_to_num(100.0, 100.0, 100.0) for each in (found, expected))
        assert_same(found, expected)


@given(numbers, steps, threads)
@settings(**OPTIONS)
def test_gru_step(numbers: Numbers, step: Steps, threads: int) -> None:
    torch.set_num_threads(threads)
    narrow, wide = step.size, 3 * step.size
    written = [step.of(numbers, narrow), step.of(numbers, wide)]
    read = [step.of(numbers, wide), step.of(numbers, wide), step.of(numbers, narrow)]
    check_step(step, "gru_step", written, read, any(map(math.isinf, numbers.special)))


@given(numbers, steps, threads)
@settings(**OPTIONS)
def test_gru_step_backward(numbers: Numbers, step: Steps, threads: int) -> None:
    torch.set_num_threads(threads)
    narrow, wide = step.size, 3 * step.size
    written = [step.of(numbers, wide), step.of(numbers, wide), step.of(numbers, narrow)]
    read = [step.of(numbers, narrow), step.of(numbers, wide), step.of(numbers, wide), step.of(numbers, narrow)]
    check_step(step, "gru_step_backward", written, read, any(map(math.isinf, numbers.special)))


@given(numbers, st.one_of(sizes, st.sampled_from([65_535, 65_536, 65_537, 140_000])), contiguous, threads)
@settings(**OPTIONS)
def test_fingerprint(numbers: Numbers, size: int, layout: Make, threads: int) -> None:
    values = layout(numbers(size))
    torch.set_num_threads(1)
    alone = ops.fingerprint(values)
    assert (alone is None) == (size == 0)
    if alone is not None:
        count("fingerprint")
        torch.set_num_threads(threads)
        assert ops.fingerprint(values.clone()) == alone
        bits = values.view(torch.int32)
        bits[numbers.below(size)] ^= 1 << numbers.below(31)
        assert ops.fingerprint(values) != alone
