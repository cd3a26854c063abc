"""Kernels of our own: the same as torch's, in every shape they are asked for, and only where they are asked for."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, dot_product, record_own
from regard.kernels import ops
from regard.kernels.build import library
from regard.layers.blocks import ACTIVATIONS, BlockSizes, FeedForward, Residual
from regard.layers.int8 import Int8Linear, TorchMatrix8
from regard.layers.packed import packed

needs_kernels = pytest.mark.skipif(library() is None, reason="there is no C compiler here, or no GNU OpenMP")
needs_8_bits = pytest.mark.skipif(not ops.has_int8(), reason="no kernel of 8 bits for this processor")
pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def reading() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(autouse=True)
def random() -> None:
    torch.manual_seed(0)


def activated(name: str, states: Tensor) -> Tensor:
    return states if name == "none" else ACTIVATIONS[name](states)


def test_every_activation_of_the_blocks_has_its_kernel() -> None:
    assert {"none", *ACTIVATIONS} == set(ops.ACTIVATIONS)


@pytest.mark.parametrize("name", ops.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(512,), (1, 512), (2, 1, 512), (3, 512)])
def test_a_product_is_torchs(name: str, shape: tuple[int, ...]) -> None:
    states, weight, bias = 3 * torch.randn(shape), torch.randn(517, 512) / 20, torch.randn(517)
    found = ops.linear(states, weight, bias, name)
    torch.testing.assert_close(found, activated(name, F.linear(states, weight, bias)), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 18, 48])
@pytest.mark.parametrize(("outputs", "inputs"), [(64, 96), (67, 101), (3, 5), (1, 16)])
def test_products_of_any_size_are_torchs(rows: int, outputs: int, inputs: int) -> None:
    states, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    found = ops.linear(states, weight, bias)
    torch.testing.assert_close(found, F.linear(states, weight, bias), atol=1e-5, rtol=1e-5)


def test_a_product_needs_neither_a_bias_nor_neighbouring_inputs() -> None:
    states, weight = torch.randn(64, 2).T, torch.randn(33, 64)
    assert not states.is_contiguous()
    torch.testing.assert_close(ops.linear(states, weight, None), F.linear(states, weight), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_activations_are_right_far_from_zero_too(name: str) -> None:
    states = torch.linspace(-120, 120, 4801)
    found = ops.linear(torch.ones(1), states[:, None], None, name)
    torch.testing.assert_close(found, ACTIVATIONS[name](states), atol=1e-6, rtol=1e-6)


def without_rounding(*shape: int) -> Tensor:
    """Numbers that 8 bits hold exactly: eighths, and 127 of them in every row."""
    states = torch.randint(-127, 128, shape) / 8
    states[..., 0] = 127 / 8
    return states


@needs_8_bits
@pytest.mark.parametrize("rows", [*range(1, 14), 50, 113])
def test_8_bits_are_the_sums_of_whole_numbers_for_any_number_of_rows(rows: int) -> None:
    layer = Int8Linear.of(torch.randn(131, 78))
    states = without_rounding(rows, 78)
    exact = (states.double() * 8) @ layer.weight.double().T * layer.scale.double() / 8
    torch.testing.assert_close(layer(states), exact.float(), atol=1e-5, rtol=1e-6)


@needs_8_bits
@pytest.mark.parametrize("name", ops.ACTIVATIONS)
@pytest.mark.parametrize("columns", [[], [0], [3, 30, 77]])
def test_8_bits_are_those_of_torch(name: str, columns: list[int]) -> None:
    weight, bias, few = torch.randn(200, 78), torch.randn(200), torch.tensor(columns, dtype=torch.int64)
    layer = Int8Linear.of(weight, bias, few, name)
    states = without_rounding(2, 3, 78)
    states[..., few] = 1000 * torch.randn(2, 3, len(columns))  # far larger than all others: not quantised
    states[..., 1] = 127 / 8
    other = TorchMatrix8(layer.weight, layer.scale, layer.bias, layer.columns, layer.whole, name)
    torch.testing.assert_close(layer(states), other(states), atol=1e-3, rtol=1e-5)


@needs_8_bits
def test_a_row_is_read_the_same_in_any_company() -> None:
    layer = Int8Linear.of(torch.randn(96, 100), torch.randn(96))
    states = torch.randn(40, 100) * torch.logspace(-3, 3, 40)[:, None]
    together = layer(states)
    for row in range(40):
        assert torch.equal(layer(states[row]), together[row])


@needs_8_bits
def test_a_row_of_zeros_gives_the_bias() -> None:
    layer = Int8Linear.of(torch.randn(70, 64), torch.randn(70))
    assert torch.equal(layer(torch.zeros(64)), layer.bias)


@needs_8_bits
def test_reading_leaves_the_inputs_as_they_were() -> None:
    layer = Int8Linear.of(torch.randn(70, 64), columns=torch.tensor([2, 60]))
    states = torch.randn(5, 64)
    before = states.clone()
    layer(states)
    assert torch.equal(states, before)


def spelled_out(query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(d)) v, one query after the other."""
    batch, heads, queries, size = query.shape
    count = keys.shape[2]
    read = torch.zeros(batch, heads, queries, values.shape[3])
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = [
                    j
                    for j in range(count)
                    if (allowed is None or allowed.expand(batch, heads, queries, count)[b, h, i, j])
                    and (not causal or j <= count - queries + i)
                ]
                if seen:
                    weights = (keys[b, h, seen] @ query[b, h, i] / math.sqrt(size)).softmax(0)
                    read[b, h, i] = weights @ values[b, h, seen]
    return read


@pytest.mark.parametrize("side_by_side", [False, True], ids=["head after head", "heads side by side"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, (2, 1, 1, 9), (1, 3, 4, 9), (2, 1, 4, 9)])
def test_attention_is_the_equation(mask: tuple[int, ...] | None, causal: bool, side_by_side: bool) -> None:
    query = torch.randn(2, 4, 3, 3, 20).permute(3, 0, 2, 1, 4)[0]  # one of three that lie side by side
    shapes = [(2, 30, 3, 20), (2, 30, 3, 12)] if side_by_side else [(2, 3, 30, 20), (2, 3, 30, 12)]
    keys, values = (torch.randn(shape).movedim(1, 2) if side_by_side else torch.randn(shape) for shape in shapes)
    keys, values = keys[:, :, :9], values[:, :, :9]  # the first of a room
    allowed = None if mask is None else torch.rand(mask) > 0.6
    if allowed is not None:
        allowed[-1, -1, -1] = False  # a query that may attend to nothing
    found = ops.attention(query, keys, values, allowed, causal, 1 / math.sqrt(20))
    torch.testing.assert_close(found, spelled_out(query, keys, values, allowed, causal))


def over_queries(allowed: Tensor | None) -> Tensor | None:
    return None if allowed is None else allowed[:, None, None]


MANY = [(9, 9), (13, 5), (12, 64), (55, 70), (100, 200), (300, 129)]  # queries and keys


def many(queries: int, count: int, size: int = 32, value_size: int = 48) -> list[Tensor]:
    """As a projection writes them: all of a token side by side."""
    sizes = [(queries, size), (count, size), (count, value_size)]
    return [torch.randn(2, length, 3, width).transpose(1, 2) for length, width in sizes]


@pytest.mark.parametrize(("queries", "count"), MANY)
@pytest.mark.parametrize("kind", ["all", "masked", "causal"])
def test_attention_of_many_is_the_equation_and_keeps_its_weights(queries: int, count: int, kind: str) -> None:
    query, keys, values = many(queries, count)
    allowed = torch.rand(2, count) > 0.4 if kind == "masked" else None
    causal = kind == "causal" and queries <= count
    scale = 1 / math.sqrt(32)
    found, weights = ops.attention_with_weights(query, keys, values, over_queries(allowed), causal, scale)
    seen = torch.ones(2, 1, queries, count, dtype=torch.bool)
    if allowed is not None:
        allowed[1] = False  # a text that nobody may read
        found, weights = ops.attention_with_weights(query, keys, values, over_queries(allowed), causal, scale)
        seen = seen & allowed[:, None, None]
    if causal:
        seen = seen & torch.ones(queries, count, dtype=torch.bool).tril(count - queries)
    scores = (query.double() @ keys.double().mT * scale).masked_fill(~seen, -torch.inf)
    wanted = scores.softmax(-1).nan_to_num(0.0)
    assert weights is not None
    torch.testing.assert_close(weights, wanted.float(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found, (wanted @ values.double()).float(), atol=1e-6, rtol=1e-5)
    unkept, nothing = ops._attention_prefill(query, keys, values, over_queries(allowed), causal, scale, False)
    assert nothing is None
    assert torch.equal(unkept, found)


def test_attention_of_many_does_not_depend_on_the_company() -> None:
    query, keys, values = many(60, 60)
    together = ops.attention(query, keys, values, None, False, 0.2)
    for text in range(2):
        alone = ops.attention(*(part[text : text + 1] for part in (query, keys, values)), None, False, 0.2)
        assert torch.equal(alone[0], together[text])
    padded = [torch.cat([part, torch.randn_like(part)], dim=2) for part in (keys, values)]
    allowed = torch.arange(120).expand(2, 120) < 60
    assert torch.equal(ops.attention(query, *padded, over_queries(allowed), False, 0.2), together)


@pytest.mark.parametrize("negative", [False, True])
def test_attention_of_many_does_not_mind_large_scores(negative: bool) -> None:
    query, keys, values = many(20, 50)
    scale = -100.0 if negative else 100.0
    found = ops.attention(query, keys, values, None, False, scale)
    exact = (query.double() @ keys.double().mT * scale).softmax(-1) @ values.double()
    torch.testing.assert_close(found, exact.float(), atol=1e-3, rtol=1e-3)


def test_attention_does_not_mind_large_scores() -> None:
    query, keys, values = 100 * torch.randn(1, 1, 1, 16), 100 * torch.randn(1, 1, 50, 16), torch.randn(1, 1, 50, 16)
    found = ops.attention(query, keys, values, None, False, 1.0)
    torch.testing.assert_close(found, F.scaled_dot_product_attention(query, keys, values, scale=1.0))


@pytest.mark.parametrize("shape", [(1, 512), (7, 3, 40), (2, 33)])
def test_the_norm_of_a_sum_is_the_equation(shape: tuple[int, ...]) -> None:
    states, added = torch.randn(shape), 3 + torch.randn(shape)
    weight, bias = torch.randn(2, shape[-1])
    both = states.double() + added.double()
    centred = both - both.mean(-1, keepdim=True)
    wanted = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias
    torch.testing.assert_close(ops.add_norm(states, added, weight, bias, 1e-5), wanted.float())


def test_blocks_use_the_norm_of_a_sum_unless_somebody_watches_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    around, states, watched = Residual(BlockSizes(8, 16, 2, 0.0, pre_norm=False)), torch.randn(2, 3, 8), []
    wanted = around.norm(states + states.sin())
    asked: list[int] = []
    add_norm = ops.add_norm
    monkeypatch.setattr(ops, "add_norm", lambda *given: asked.append(1) or add_norm(*given))
    torch.testing.assert_close(around(states, torch.sin), wanted)
    assert asked == [1]
    around.norm.register_forward_hook(lambda *seen: watched.append(seen))
    torch.testing.assert_close(around(states, torch.sin), wanted)
    assert asked == [1]
    assert len(watched) == 1


def test_models_ask_the_kernel_a_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    decode = ops._attention_decode

    def watched(query: Tensor, *others: object) -> Tensor | None:
        asked.append(query.shape[2])
        return decode(query, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(ops, "_attention_decode", watched)
    for queries in (1, ops.MAX_DECODE_QUERIES, ops.MAX_DECODE_QUERIES + 1):
        query, keys = torch.randn(2, 2, queries, 8), torch.randn(2, 2, 12, 8)
        found = dot_product.attend(query, keys, keys).context
        torch.testing.assert_close(found, F.scaled_dot_product_attention(query, keys, keys))
    assert asked == [1, ops.MAX_DECODE_QUERIES]


def test_models_ask_for_many_queries_at_once_where_they_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    prefill = ops._attention_prefill

    def watched(*given: object) -> object:
        found = prefill(*given)  # type: ignore[arg-type]
        asked.extend([1] * (found is not None))
        return found

    monkeypatch.setattr(ops, "_attention_prefill", watched)
    query, keys, values = many(20, 30)
    of_keys, of_both = torch.rand(2, 1, 1, 30) > 0.3, torch.rand(2, 1, 20, 30) > 0.3
    of_both[:, :, 4] = False
    taken: list[dict[str, object]] = [{}, {"causal": True}, {"mask": of_keys}]
    left: list[dict[str, object]] = [{"mask": of_both}, {"mask": of_keys, "causal": True}, {"window": 3}]
    for given in (*taken, *left):
        before = len(asked)
        attended = dot_product.attend(query, keys, values, **given)  # type: ignore[arg-type]
        assert len(asked) - before == any(given is each for each in taken), given
        torch.testing.assert_close(attended.context, attended.weights @ values, atol=1e-5, rtol=1e-5)
        kept = dot_product.attend(query, keys, values, keep=True, **given)  # type: ignore[arg-type]
        assert torch.equal(kept.context, attended.context)
        torch.testing.assert_close(kept.weights, attended.weights, atol=1e-6, rtol=1e-5)
        some = kept.weights_of(torch.tensor([2]), slice(3, 5))
        torch.testing.assert_close(some, attended.weights[:, 2:, 3:5], atol=1e-6, rtol=1e-5)
    before = len(asked)
    dot_product.attend(query[..., :24], keys[..., :24], values)
    assert len(asked) == before  # no whole vectors


def test_who_records_everything_gets_the_weights_that_were_read_with() -> None:
    attention, states = MultiHeadAttention(64, 2), torch.randn(2, 40, 64)
    mask = torch.rand(2, 40) > 0.3
    plain = attention(states, mask=mask).context
    with record_own(attention) as tape:
        assert torch.equal(attention(states, mask=mask).context, plain)
        with record_own(attention, heads=[1], queries=[-1]) as one:
            attention(states, mask=mask)
        assert attention.keeps_weights
    assert not attention.keeps_weights
    torch.testing.assert_close(one[""], tape[""][:, 1:, 39:40])
    assert tape[""].shape == (2, 2, 80, 40)
    exact = attention(states, mask=mask).weights
    torch.testing.assert_close(tape[""][:, :, :40], exact, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 300])
@pytest.mark.parametrize(("outputs", "inputs"), [(6, 1), (7, 64), (11, 65), (48, 200), (61, 63)])
def test_outer_products_are_added_up(rows: int, outputs: int, inputs: int) -> None:
    total, to_outputs, states = torch.randn(outputs, inputs), torch.randn(rows, outputs), torch.randn(rows, inputs)
    wanted = total.double() + to_outputs.double().T @ states.double()
    beside = torch.stack([total, torch.full_like(total, 7.0)])
    ops.accumulate_weight_grad(beside[0], to_outputs, states)
    torch.testing.assert_close(beside[0].double(), wanted, rtol=1e-5, atol=1e-4)
    assert bool((beside[1] == 7).all()), "something is written beyond the end"


def test_outer_products_are_added_up_the_same_with_any_number_of_threads() -> None:
    to_outputs, states, known = torch.randn(300, 61), torch.randn(300, 130), torch.get_num_threads()
    totals = torch.zeros(3, 61, 130)
    try:
        for threads, total in enumerate(totals, 1):
            torch.set_num_threads(threads)
            ops.accumulate_weight_grad(total, to_outputs, states)
    finally:
        torch.set_num_threads(known)
    assert torch.equal(totals[0], totals[1])
    assert torch.equal(totals[0], totals[2])


def test_what_is_not_a_number_is_seen_in_the_sum_of_outer_products() -> None:
    states, total = torch.randn(40, 64), torch.zeros(12, 64)
    states[3, 5] = torch.nan
    ops.accumulate_weight_grad(total, torch.randn(40, 12), states)
    assert bool(total[:, 5].isnan().all())
    assert not total[:, 6:].isnan().any()


def test_a_fingerprint_tells_every_change() -> None:
    numbers = torch.randn(3, 50_001)  # more than two parts, the last not full
    flat, first = numbers.view(-1), ops.fingerprint(numbers)
    assert ops.fingerprint(numbers.clone()) == first
    found = {first}
    for place in (0, 63, 64, 65_535, 65_536, 150_002):
        for change in (-flat[place].item(), flat[place].item() + 1e-6, 0.0):
            kept = flat[place].item()
            flat[place] = change
            found.add(ops.fingerprint(numbers))
            flat[place] = kept
    found |= {ops.fingerprint(-numbers), ops.fingerprint(numbers.roll(1, 0)), ops.fingerprint(flat[:-1])}
    assert len(found) == 1 + 6 * 3 + 3
    assert ops.fingerprint(numbers) == first


def test_a_fingerprint_does_not_depend_on_threads() -> None:
    numbers, threads = torch.randn(300_000), torch.get_num_threads()
    found = ops.fingerprint(numbers)
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        assert ops.fingerprint(numbers) == found
    finally:
        torch.set_num_threads(threads)


def test_nan_in_a_key_or_value_that_is_hidden_changes_nothing() -> None:
    for queries in (3, 20):
        query, keys, values = many(queries, 30)
        visible = torch.rand(2, 1, 1, 30) > 0.3
        clean = ops.attention(query, keys, values, visible, False, 0.2)
        hidden = ~visible[:, 0, 0, :, None].expand(2, 30, 1)
        spoilt = [torch.where(hidden[:, None], torch.nan, part) for part in (keys, values)]
        assert torch.equal(ops.attention(query, *spoilt, visible, False, 0.2), clean)


@pytest.mark.parametrize("queries", [5, 24])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_in_a_later_key_or_value_does_not_reach_earlier_queries(queries: int, number: float) -> None:
    query, keys, values = many(queries, 24)
    clean = ops.attention(query, keys, values, None, True, 0.2)
    for part in (keys, values):
        kept = part[:, :, -3].clone()
        part[:, :, -3] = number
        found = ops.attention(query, keys, values, None, True, 0.2)
        torch.testing.assert_close(found[:, :, :-3], clean[:, :, :-3], atol=1e-6, rtol=1e-5)
        assert not found[:, :, -3:].isfinite().any()
        part[:, :, -3] = kept


@pytest.mark.parametrize("queries", [3, 20])
def test_nan_in_what_is_attended_to_gives_nan(queries: int) -> None:
    for number in range(3):
        given = many(queries, 30)
        given[number][1, 2, 1, 5] = torch.nan
        found = ops.attention(*given, None, False, 0.2)
        assert not found[0].isnan().any()
        assert not found[1, :2].isnan().any()
        if number == 0:  # a query
            assert found[1, 2].isnan().any(-1).tolist() == [row == 1 for row in range(queries)]
        else:
            assert found[1, 2].isnan().any(-1).all()


@needs_8_bits
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", [3, 30])
def test_8_bits_give_nan_for_a_row_with_an_input_that_is_no_finite_number(number: float, column: int) -> None:
    """In a column that stays whole, too."""
    layer = Int8Linear.of(torch.randn(200, 78), torch.randn(200), torch.tensor([30]))
    other = TorchMatrix8(layer.weight, layer.scale, layer.bias, layer.columns, layer.whole, "none")
    states = torch.randn(7, 78)
    clean = layer(states)
    states[2, column] = number
    for found in (layer(states), other(states)):
        assert not found[2].isfinite().any()
        torch.testing.assert_close(found[[0, 1, 3, 4, 5, 6]], clean[[0, 1, 3, 4, 5, 6]], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("name", ops.ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 5, 40, 100])
def test_products_and_activations_keep_nan(name: str, rows: int) -> None:
    layer = FeedForward(512, 512, name) if name != "none" else nn.Linear(512, 512)
    states = torch.randn(1, rows, 512)
    states[0, -1, 7] = torch.nan
    with packed(layer):
        found = layer(states)[0]
    assert found[-1].isnan().all()
    assert not found[:-1].isnan().any()
