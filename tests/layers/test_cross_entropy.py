"""The chunked loss against torch's own, which holds the whole matrix of logits."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.layers import cross_entropy
from regard.layers.cross_entropy import linear_cross_entropy

COUNT, SIZE, VOCABULARY = 11, 5, 7
CHUNKS = [1, VOCABULARY, 3 * VOCABULARY + 2, COUNT * VOCABULARY, 1 << 21]  # rows at once: 1, 1, 3, all, all


def problem(count: int = COUNT, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    states = torch.randn(count, SIZE, generator=draw, dtype=torch.float64).requires_grad_()
    weight = torch.randn(VOCABULARY, SIZE, generator=draw, dtype=torch.float64).requires_grad_()
    return states, weight, torch.randint(VOCABULARY, (count,), generator=draw)


def reference(states: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(states @ weight.T, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("count", [1, 2, COUNT])
def test_loss_likelihood_and_gradients_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, chunk: int, smoothing: float, count: int
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", chunk)
    states, weight, targets = problem(count)
    loss, rows = linear_cross_entropy(states, weight, targets, smoothing)
    expected = reference(states, weight, targets, smoothing)
    torch.testing.assert_close(loss, expected, atol=1e-12, rtol=1e-12)
    each = F.cross_entropy(states @ weight.T, targets, reduction="none").detach()
    torch.testing.assert_close(rows, each, atol=1e-12, rtol=1e-12)
    found = torch.autograd.grad(loss * 3, (states, weight))
    wanted = torch.autograd.grad(expected * 3, (states, weight))
    for gradient, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_the_slopes_of_the_loss(monkeypatch: pytest.MonkeyPatch, smoothing: float) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", 2 * VOCABULARY)
    states, weight, targets = problem()
    assert torch.autograd.gradcheck(
        lambda hidden, rows: linear_cross_entropy(hidden, rows, targets, smoothing)[0], (states, weight)
    )


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_loss_needs_no_gradient(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", chunk)
    states, weight, targets = problem()
    with torch.inference_mode():
        loss, rows = linear_cross_entropy(states.detach(), weight.detach(), targets, 0.1)
        nll = rows.sum()
    assert not loss.requires_grad
    torch.testing.assert_close(loss, reference(states, weight, targets, 0.1).detach())
    torch.testing.assert_close(nll, reference(states, weight, targets, 0.0).detach())


@pytest.mark.parametrize("learnt", ["states", "weight"])
def test_either_side_may_be_fixed(learnt: str) -> None:
    states, weight, targets = problem()
    if learnt == "states":
        weight = weight.detach()
    else:
        states = states.detach()
    wanted = states if learnt == "states" else weight
    (gradient,) = torch.autograd.grad(linear_cross_entropy(states, weight, targets, 0.1)[0], wanted)
    (expected,) = torch.autograd.grad(reference(states, weight, targets, 0.1), wanted)
    torch.testing.assert_close(gradient, expected)


def test_the_likelihood_carries_no_gradient() -> None:
    loss, rows = linear_cross_entropy(*problem(), 0.1)
    assert loss.requires_grad
    assert not rows.requires_grad


def test_inputs_are_left_as_they_were() -> None:
    states, weight, targets = problem()
    before = states.detach().clone(), weight.detach().clone()
    linear_cross_entropy(states, weight, targets, 0.1)[0].backward()
    assert torch.equal(states, before[0])
    assert torch.equal(weight, before[1])


def test_single_precision_is_close_to_double() -> None:
    states, weight, targets = problem()
    loss, _ = linear_cross_entropy(states.float(), weight.float(), targets, 0.1)
    torch.testing.assert_close(loss.double(), reference(states, weight, targets, 0.1), atol=1e-4, rtol=1e-6)


def test_huge_logits_stay_finite() -> None:
    states, weight, targets = problem()
    loss, rows = linear_cross_entropy(states * 1e4, weight, targets, 0.1)
    (gradient,) = torch.autograd.grad(loss, states)
    assert torch.isfinite(loss)
    assert torch.isfinite(rows).all()
    assert torch.isfinite(gradient).all()


def test_no_rows_cost_nothing() -> None:
    states, weight, targets = problem(0)
    loss, rows = linear_cross_entropy(states, weight, targets, 0.1)
    nll = rows.sum()
    assert loss.item() == nll.item() == 0.0
    (gradient,) = torch.autograd.grad(loss, weight)
    assert not gradient.any()
