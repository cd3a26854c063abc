"""Padding side, padding amount and batch composition never change a result; nothing to see reads zeros.

Each property draws rows of different lengths, pads every row on the left, on the right or on both sides with
rubbish, and compares the padded batch with each row computed alone and without padding.
"""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import ALIGNMENTS, SCORES, Attended, MultiHeadAttention, attend, masks, named_attention
from regard.attention.alignments import Local

SIZE = 4
EVERY_ATTENTION = [(score, align) for score in SCORES if score != "concat" for align in ALIGNMENTS]


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@dataclass
class Rows:
    """A batch of rows, each real only from `starts[b]` on for `lengths[b]` places out of `width`."""

    lengths: list[int]
    starts: list[int]
    width: int
    rubbish: float
    seed: int

    @property
    def mask(self) -> Tensor:
        mask = torch.zeros(len(self.lengths), self.width, dtype=torch.bool)
        for b, real in enumerate(self.spans):
            mask[b, real] = True
        return mask

    @property
    def spans(self) -> list[slice]:
        return [slice(start, start + n) for start, n in zip(self.starts, self.lengths, strict=True)]

    def states(self, size: int = SIZE, offset: int = 0) -> tuple[list[Tensor], Tensor]:
        """The rows by themselves [length, size], and all of them padded [batch, width, size]."""
        generator = torch.Generator().manual_seed(self.seed + offset)
        rows = [torch.randn(n, size, generator=generator) for n in self.lengths]
        padded = self.rubbish * torch.randn(len(rows), self.width, size, generator=generator)
        for b, (row, real) in enumerate(zip(rows, self.spans, strict=True)):
            padded[b, real] = row
        return rows, padded

    def query(self, queries: int, size: int = SIZE) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed + 77)
        return torch.randn(len(self.lengths), queries, size, generator=generator)


@st.composite
def padded_rows(draw: st.DrawFn, least: int = 0) -> Rows:
    lengths = draw(st.lists(st.integers(least, 6), min_size=1, max_size=3))
    width = max(1, max(lengths) + draw(st.integers(0, 4)))
    side = draw(st.sampled_from(["left", "right", "both"]))
    starts = [
        {"left": width - n, "right": 0}[side] if side != "both" else draw(st.integers(0, width - n)) for n in lengths
    ]
    return Rows(lengths, starts, width, draw(st.sampled_from([0.0, 1.0, 30.0])), draw(st.integers(0, 9999)))


def gradients(output: Tensor, *leaves: Tensor, also: Tensor | None = None) -> list[Tensor]:
    """Gradients of an uneven sum of the output: a plain sum would hide some mistakes behind symmetry."""
    loss = (output * torch.linspace(-1, 2, output.shape[-1])).sum()
    loss = loss if also is None else loss + also.sum()
    return list(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))


@settings(max_examples=60, deadline=None)
@given(rows=padded_rows(), queries=st.integers(1, 4))
def test_attend_does_not_notice_padding(rows: Rows, queries: int) -> None:
    query = rows.query(queries).requires_grad_()
    alone, padded = rows.states()
    padded.requires_grad_()
    attended = attend(query, padded, padded, mask=masks.over_queries(rows.mask))
    query_gradient, state_gradient = gradients(attended.context, query, padded)
    for b, real in enumerate(rows.spans):
        states, asking = alone[b][None].requires_grad_(), query[b : b + 1].detach().requires_grad_()
        single = attend(asking, states, states)
        assert_same(attended.context[b : b + 1], single.context)
        assert_same(attended.weights[b, :, real], single.weights[0])
        own_query_gradient, own_state_gradient = gradients(single.context, asking, states)
        assert_same(query_gradient[b], own_query_gradient[0])
        assert_same(state_gradient[b, real], own_state_gradient[0])
    assert not attended.weights.transpose(1, 2)[~rows.mask].any()
    assert not state_gradient[~rows.mask].any()
    assert query_gradient.isfinite().all()


def build(score: str, align: str) -> torch.nn.Module:
    torch.manual_seed(5)
    attention = named_attention(score, align, SIZE, SIZE).eval()
    if isinstance(attention.align, Local):
        attention.align.reach = 2  # narrower than the rows, so that the window matters
    return attention


@pytest.mark.parametrize(("score", "align"), EVERY_ATTENTION)
@settings(max_examples=20, deadline=None)
@given(rows=padded_rows(), queries=st.integers(1, 4))
def test_no_attention_notices_padding(score: str, align: str, rows: Rows, queries: int) -> None:
    attention = build(score, align)
    query = rows.query(queries).requires_grad_()
    alone, padded = rows.states()
    values, padded_values = rows.states(size=3, offset=1)
    padded.requires_grad_()
    padded_values.requires_grad_()
    attended = attention(query, attention.remember(padded, rows.mask, padded_values))
    parameters = list(attention.parameters())
    query_gradient, state_gradient, value_gradient, *parameter_gradients = gradients(
        attended.context, query, padded, padded_values, *parameters, also=attended.log_probability
    )
    expected_parameter_gradients = [torch.zeros_like(parameter) for parameter in parameters]
    for b, real in enumerate(rows.spans):
        if rows.lengths[b] == 0:
            assert not attended.context[b].any()
            assert not attended.weights[b].any()
            assert not query_gradient[b].any()
            continue
        asking, states = query[b : b + 1].detach().requires_grad_(), alone[b][None].requires_grad_()
        single = attention(asking, attention.remember(states, values=values[b][None]))
        assert_same(attended.context[b : b + 1], single.context)
        assert_same(attended.weights[b, :, real], single.weights[0])
        if align in ("soft", "hard", "local_m"):
            assert_same(attended.weights[b].sum(-1), torch.ones(queries))
        own = gradients(single.context, asking, states, *parameters, also=single.log_probability)
        assert_same(query_gradient[b], own[0][0])
        assert_same(state_gradient[b, real], own[1][0])
        for total, part in zip(expected_parameter_gradients, own[2:], strict=True):
            total += part
    for found, expected in zip(parameter_gradients, expected_parameter_gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not attended.weights.transpose(1, 2)[~rows.mask].any()
    assert not state_gradient[~rows.mask].any()
    assert not value_gradient[~rows.mask].any()


@settings(max_examples=60, deadline=None)
@given(rows=padded_rows(least=1), causal=st.booleans(), heads=st.sampled_from([1, 2, 4]))
def test_self_attention_does_not_notice_padding(rows: Rows, causal: bool, heads: int) -> None:
    torch.manual_seed(5)
    attention = MultiHeadAttention(SIZE, heads)
    alone, padded = rows.states()
    padded.requires_grad_()
    attended = attention(padded, mask=rows.mask, causal=causal)
    (state_gradient,) = gradients(attended.context[rows.mask], padded)
    for b, real in enumerate(rows.spans):
        states = alone[b][None].requires_grad_()
        single = attention(states, causal=causal)
        assert_same(attended.context[b, real], single.context[0])
        assert_same(attended.weights[b, :, real, real], single.weights[0])
        assert_same(state_gradient[b, real], gradients(single.context, states)[0][0])
    assert attended.context.isfinite().all()
    assert not state_gradient[~rows.mask].any()
    assert not attended.weights.transpose(1, 3)[~rows.mask].any()


@settings(max_examples=60, deadline=None)
@given(rows=padded_rows(), queries=st.integers(1, 4), heads=st.sampled_from([1, 2, 4]))
def test_multi_head_attention_over_a_memory_does_not_notice_padding(rows: Rows, queries: int, heads: int) -> None:
    torch.manual_seed(5)
    attention = MultiHeadAttention(SIZE, heads, key_size=3)
    torch.nn.init.normal_(attention.output.bias)
    query = rows.query(queries).requires_grad_()
    alone, padded = rows.states(size=3)
    padded.requires_grad_()
    attended = attention(query, attention.remember(padded, rows.mask))
    query_gradient, state_gradient = gradients(attended.context, query, padded)
    for b, real in enumerate(rows.spans):
        if rows.lengths[b] == 0:
            # The heads read zeros; what is left is the output projection's bias.
            assert torch.equal(attended.context[b], attention.output.bias.expand(queries, SIZE))
            assert not attended.weights[b].any()
            assert not query_gradient[b].any()
            continue
        asking, states = query[b : b + 1].detach().requires_grad_(), alone[b][None].requires_grad_()
        single = attention(asking, attention.remember(states))
        assert_same(attended.context[b : b + 1], single.context)
        assert_same(attended.weights[b, :, :, real], single.weights[0])
        assert_same(attended.weights[b].sum(-1), torch.ones(heads, queries))
        own_query_gradient, own_state_gradient = gradients(single.context, asking, states)
        assert_same(query_gradient[b], own_query_gradient[0])
        assert_same(state_gradient[b, real], own_state_gradient[0])
    assert not state_gradient[~rows.mask].any()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), queries=st.integers(1, 4), keys=st.integers(1, 5), causal=st.booleans())
def test_a_head_that_may_attend_to_nothing_reads_zeros(
    data: st.DataObject, queries: int, keys: int, causal: bool
) -> None:
    torch.manual_seed(5)
    attention = MultiHeadAttention(SIZE, 2, bias=False)
    count = 2 * queries * keys
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    mask = mask.view(2, queries, keys)
    query = torch.randn(2, queries, SIZE, requires_grad=True)
    states = torch.randn(2, keys, SIZE, requires_grad=True)
    attended: Attended = attention(query, attention.remember(states), mask=mask, causal=causal)
    visible = mask & masks.causal(queries, keys) if causal else mask
    nothing = ~visible.any(-1)
    query_gradient, state_gradient, *rest = gradients(attended.context, query, states, *attention.parameters())
    assert not attended.context[nothing].any()
    assert not attended.weights.transpose(1, 2)[nothing].any()
    assert not query_gradient[nothing].any()
    assert not state_gradient[~visible.any(1)].any()
    assert_same(attended.weights.sum(-1), (~nothing).float()[:, None].expand(2, 2, queries))
    for tensor in (attended.context, query_gradient, state_gradient, *rest):
        assert tensor.isfinite().all()
