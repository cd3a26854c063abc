"""Attention through a window: the same as full attention under a band of a mask, forwards and backwards."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from regard.attention import MultiHeadAttention, dot_product, masks
from regard.errors import RegardError


def tensors(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(queries * 1000 + keys)
    shapes = (2, 3, queries, 8), (2, 3, keys, 8), (2, 3, keys, 8)
    made = [torch.randn(shape, generator=draw, requires_grad=True) for shape in shapes]
    return made[0], made[1], made[2]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [0, 1, 5, 100])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (23, 23), (4, 20), (1, 12)])
def test_it_is_full_attention_under_a_band(
    queries: int, keys: int, window: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dot_product, "WINDOW_QUERIES", 5)
    real = torch.rand(2, 1, 1, keys, generator=torch.Generator().manual_seed(1)) > 0.3
    band = masks.window(queries, keys, before=window, after=0 if causal else window)
    near, full = tensors(queries, keys), tensors(queries, keys)
    seen = dot_product.attend(*near, mask=real, causal=causal, window=window)
    wanted = dot_product.attend(*full, mask=real & band)
    torch.testing.assert_close(seen.context, wanted.context)
    torch.testing.assert_close(seen.weights, wanted.weights)
    seen.context.square().sum().backward()
    wanted.context.square().sum().backward()
    for one, other in zip(near, full, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_gradients_are_put_together_once_however_many_windows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of a long input has a gradient as long as the input: one per window would be quadratic."""
    monkeypatch.setattr(dot_product, "WINDOW_QUERIES", 5)
    parts = tensors(50, 50)
    arriving: Counter[int] = Counter()
    todo, known = [dot_product.attend(*parts, causal=True, window=3).context.grad_fn], set()
    while todo:
        node = todo.pop()
        if node in known or node is None:
            continue
        known.add(node)
        for after, _ in node.next_functions:
            todo.append(after)
            arriving.update(number for number, part in enumerate(parts) if getattr(after, "variable", None) is part)
    assert arriving == {0: 1, 1: 1, 2: 1}


def test_heads_have_a_window_over_themselves_but_not_over_a_memory() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2, window=3)
    states, source = torch.randn(2, 9, 16), torch.randn(2, 30, 16)
    weights = attention(states, causal=True).weights
    band = masks.window(9, 9, before=3, after=0)
    assert (weights[..., ~band] == 0).all()
    assert (weights[..., band] > 0).all()
    assert (attention(states, attention.remember(source)).weights > 0).all()


def test_step_by_step_is_the_same_as_at_once() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2, window=3)
    states, past = torch.randn(2, 9, 16), None
    whole = attention(states, causal=True).context
    for place in range(9):
        attended = attention(states[:, place : place + 1], causal=True, past=past)
        torch.testing.assert_close(attended.context[:, 0], whole[:, place])
        past = attended.memory


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(RegardError, match="a window of -1 places"):
        MultiHeadAttention(16, 2, window=-1)
