"""The fused kernel against the softmax spelled out row by row, and the weights against both."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import attend, dot_product, masks


def naive(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Context and weights by a loop over rows; a row that may attend to nothing keeps its zeros."""
    shape = (*query.shape[:-1], keys.shape[-2])
    queries, count = shape[-2:]
    allowed = (torch.ones(()).bool() if mask is None else mask).expand(shape)
    weights = torch.zeros(shape)
    flat_weights, flat_allowed = weights.view(-1, queries, count), allowed.reshape(-1, queries, count)
    flat_query, flat_keys = query.reshape(-1, *query.shape[-2:]), keys.reshape(-1, *keys.shape[-2:])
    for b in range(len(flat_weights)):
        for row in range(queries):
            last = count - queries + row if causal else count
            seen = [key for key in range(count) if flat_allowed[b, row, key] and key <= last]
            if seen:
                scores = torch.stack([torch.dot(flat_query[b, row], flat_keys[b, key]) for key in seen])
                flat_weights[b, row, seen] = torch.softmax(scores * scale, 0)
    return weights @ values, weights


@dataclass
class Case:
    query: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor | None
    causal: bool
    scale: float | None

    def attend(self):
        return attend(self.query, self.keys, self.values, mask=self.mask, causal=self.causal, scale=self.scale)

    def naive(self) -> tuple[Tensor, Tensor]:
        scale = 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else self.scale
        return naive(self.query, self.keys, self.values, self.mask, self.causal, scale)


@st.composite
def bits(draw: st.DrawFn, *shape: int) -> Tensor:
    """A boolean tensor, with some of its rows emptied on purpose."""
    count = math.prod(shape)
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=torch.bool)
    mask = mask.view(-1, shape[-1])
    for row in draw(st.sets(st.integers(0, len(mask) - 1), max_size=len(mask))):
        mask[row] = False
    return mask.view(shape)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2), (1, 3)]))
    queries, keys = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    size, value_size = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    one = (1,) * len(batch)
    shapes = [
        (*batch, queries, keys),
        (*batch, 1, keys),
        (*batch[:1], *one[1:], 1, keys),
        (queries, keys),
        (queries, 1),
    ]
    shape = draw(st.none() | st.sampled_from(shapes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9999)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*batch, *shape, generator=generator)

    return Case(
        normal(queries, size),
        normal(keys, size),
        normal(keys, value_size),
        None if shape is None else draw(bits(*shape)),
        draw(st.booleans()),
        draw(st.none() | st.floats(0.1, 3.0)),
    )


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_the_fused_context_is_what_the_naive_weights_read(case: Case) -> None:
    attended = case.attend()
    context, weights = case.naive()
    torch.testing.assert_close(attended.context, context, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(attended.weights, weights, atol=1e-6, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_a_row_that_may_attend_to_nothing_reads_zeros_and_every_other_row_pays_one(case: Case) -> None:
    attended = case.attend()
    nothing = case.naive()[1].sum(-1) == 0
    assert not attended.context[nothing].any()
    assert not attended.weights[nothing].any()
    torch.testing.assert_close(attended.weights.sum(-1), (~nothing).float())


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_gradients_are_those_of_the_naive_rows_and_zero_where_nothing_was_seen(case: Case) -> None:
    leaves = [case.query, case.keys, case.values]
    for leaf in leaves:
        leaf.requires_grad_()
    context, weights = case.naive()
    upstream = torch.linspace(-1, 1, context.numel()).view(context.shape)
    expected = torch.autograd.grad((context * upstream).sum(), leaves, allow_unused=True, materialize_grads=True)
    attended = case.attend()
    fused = torch.autograd.grad((attended.context * upstream).sum(), leaves)
    looked_at = torch.autograd.grad((attended.weights @ case.values * upstream).sum(), leaves)
    for name, wanted, found, seen in zip("qkv", expected, fused, looked_at, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4, msg=f"fused, {name}")
        torch.testing.assert_close(seen, wanted, atol=1e-5, rtol=1e-4, msg=f"weights, {name}")
    assert not fused[0][weights.sum(-1) == 0].any()
    never_seen = weights.sum(-2) == 0
    assert not fused[1][never_seen].any()
    assert not fused[2][never_seen].any()


def test_with_more_keys_than_queries_the_queries_are_the_last_positions() -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(2, 6, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 3)
    full = attend(query, keys, values, causal=True)
    for start in range(6):
        tail = attend(query[:, start:], keys, values, causal=True)
        torch.testing.assert_close(tail.context, full.context[:, start:], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(tail.weights, full.weights[:, start:], atol=1e-6, rtol=1e-5)


def test_with_more_queries_than_keys_the_first_queries_stand_before_every_key() -> None:
    torch.manual_seed(0)
    attended = attend(torch.randn(1, 5, 4), torch.randn(1, 3, 4), torch.randn(1, 3, 4), causal=True)
    assert not attended.context[:, :2].any()
    assert (attended.weights > 0)[0].tolist() == masks.causal(5, 3).tolist()


def test_no_kernel_ever_sees_a_row_that_may_attend_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels differ in what such a row gives, so that a test on one machine cannot speak for the others."""
    kernel, seen = dot_product.F.scaled_dot_product_attention, []

    def watched(*tensors: Tensor, attn_mask: Tensor | None = None, **options: object) -> Tensor:
        seen.append(attn_mask)
        return kernel(*tensors, attn_mask=attn_mask, **options)

    monkeypatch.setattr(dot_product.F, "scaled_dot_product_attention", watched)
    query, keys = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    attend(query, keys, keys, causal=True)
    attend(query, keys, keys, mask=torch.zeros(2, 1, 3, dtype=torch.bool))
    assert len(seen) == 2
    for mask in seen:
        assert mask.any(-1).all()


def test_a_row_of_a_batch_is_the_row_alone() -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(4, 3, 8), torch.randn(4, 5, 8), torch.randn(4, 5, 8)
    mask = torch.rand(4, 3, 5) > 0.4
    together = attend(query, keys, values, mask=mask).context
    for b in range(4):
        one = slice(b, b + 1)
        alone = attend(query[one], keys[one], values[one], mask=mask[one]).context
        torch.testing.assert_close(alone, together[one], atol=1e-5, rtol=1e-5)


def test_a_mask_over_keys_alone_broadcasts_to_every_query() -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    mask = torch.tensor([True, False, True, True, False])
    short, long = (attend(query, keys, values, mask=m) for m in (mask, mask.expand(2, 3, 5)))
    torch.testing.assert_close(short.context, long.context)
    torch.testing.assert_close(short.weights, long.weights)


def test_there_may_be_nothing_to_attend_to_and_nobody_to_ask() -> None:
    some, none = torch.randn(2, 3, 4), torch.empty(2, 0, 4)
    nothing_to_see = attend(some, none, none)
    assert torch.equal(nothing_to_see.context, torch.zeros(2, 3, 4))
    assert nothing_to_see.weights.shape == (2, 3, 0)
    assert attend(none, some, some, causal=True).context.shape == (2, 0, 4)
    assert attend(none, some, some, causal=True).weights.shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_precisions_read_zeros_too(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, keys, values = (torch.randn(1, 3, 4).to(dtype).requires_grad_() for _ in range(3))
    mask = torch.tensor([[[True, False, True], [False] * 3, [True] * 3]])
    attended = attend(query, keys, values, mask=mask)
    assert attended.context.dtype == attended.weights.dtype == dtype
    assert attended.context.isfinite().all()
    assert not attended.context[0, 1].any()
    assert not attended.weights[0, 1].any()
    for gradient in torch.autograd.grad(attended.context.sum(), [query, keys, values]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("at_once", [1, 24, 25, 1000])
def test_weights_computed_in_chunks_are_the_same_weights(
    monkeypatch: pytest.MonkeyPatch, at_once: int, causal: bool
) -> None:
    torch.manual_seed(0)
    query, keys = torch.randn(2, 3, 7, 4), torch.randn(2, 3, 8, 4)
    mask = torch.rand(2, 1, 7, 8) > 0.3
    attended = attend(query, keys, keys, mask=mask, causal=causal)
    whole = attended.weights_of(None, None)
    monkeypatch.setattr(dot_product, "CHUNK_ELEMENTS", at_once)
    torch.testing.assert_close(attended.weights_of(None, None), whole)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask_shape", [None, (2, 1, 1, 6), (1, 1, 5, 6), (2, 3, 5, 6), (3, 5, 6), (5, 6), (6,)])
def test_weights_of_chosen_heads_and_rows_are_a_part_of_all_the_weights(
    mask_shape: tuple[int, ...] | None, causal: bool
) -> None:
    torch.manual_seed(0)
    query, keys = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4)
    mask = None if mask_shape is None else torch.rand(mask_shape) > 0.3
    attended = attend(query, keys, keys, mask=mask, causal=causal)
    for heads in (None, torch.tensor([2]), torch.tensor([2, 0]), slice(1, 3)):
        for rows in (None, torch.tensor([4]), torch.tensor([3, 0]), slice(1, 4)):
            part = attended.weights[:, slice(None) if heads is None else heads]
            part = part[:, :, slice(None) if rows is None else rows]
            torch.testing.assert_close(attended.weights_of(heads, rows), part)


def test_weights_are_computed_at_the_first_look_and_kept() -> None:
    attended = attend(torch.randn(1, 2, 3), torch.randn(1, 4, 3), torch.randn(1, 4, 3))
    assert "weights" not in vars(attended)
    assert attended.weights is attended.weights
