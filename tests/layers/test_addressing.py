"""Addressing: every equation of the paper against a loop that spells it, and what must hold of any weights."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import record
from regard.layers.addressing import addressing, sharpened, shifted, wishes_size, written

BATCH, HEADS, CELLS, SIZE = 2, 3, 7, 4


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def some_weights() -> Tensor:
    return torch.randn(BATCH, HEADS, CELLS).softmax(-1)


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_a_shift_is_the_circular_convolution_of_equation_8(reach: int) -> None:
    weights, shifts = some_weights(), torch.rand(BATCH, HEADS, 2 * reach + 1).softmax(-1)
    expected = torch.zeros_like(weights)
    for row in range(BATCH):
        for head in range(HEADS):
            for i in range(CELLS):
                for j in range(CELLS):
                    for move in range(-reach, reach + 1):
                        if (i - j - move) % CELLS == 0:
                            expected[row, head, i] += weights[row, head, j] * shifts[row, head, move + reach]
    torch.testing.assert_close(shifted(weights, shifts), expected)


def test_a_shift_by_one_moves_the_last_cell_to_the_first() -> None:
    weights = F.one_hot(torch.tensor([[CELLS - 1]]), CELLS).float()
    forward, back = torch.tensor([[[0.0, 0.0, 1.0]]]), torch.tensor([[[1.0, 0.0, 0.0]]])
    assert shifted(weights, forward).argmax(-1).item() == 0
    assert shifted(weights, back).argmax(-1).item() == CELLS - 2


def test_sharpening_is_a_power_over_its_sum() -> None:
    weights, gamma = some_weights(), 1 + 5 * torch.rand(BATCH, HEADS, 1)
    expected = weights**gamma / (weights**gamma).sum(-1, keepdim=True)
    torch.testing.assert_close(sharpened(weights, gamma), expected)


def test_sharpening_weights_of_zero_gives_no_nan_in_value_or_gradient() -> None:
    weights = F.one_hot(torch.tensor([[2]]), CELLS).float().requires_grad_()
    gamma = torch.full((1, 1, 1), 80.0, requires_grad=True)
    sharp = sharpened(weights, gamma)
    torch.testing.assert_close(sharp, weights.detach())
    (sharp * torch.arange(CELLS)).sum().backward()
    assert torch.isfinite(weights.grad).all()
    assert torch.isfinite(gamma.grad).all()


@pytest.mark.parametrize("heads", [1, 3])
def test_writing_is_erasing_by_every_head_and_then_adding_by_every_head(heads: int) -> None:
    memory, weights = torch.randn(BATCH, CELLS, SIZE), some_weights()[:, :heads]
    erase, add = torch.rand(BATCH, heads, SIZE), torch.randn(BATCH, heads, SIZE)
    expected = memory.clone()
    for row in range(BATCH):
        for cell in range(CELLS):
            for head in range(heads):
                expected[row, cell] *= 1 - weights[row, head, cell] * erase[row, head]
            for head in range(heads):
                expected[row, cell] += weights[row, head, cell] * add[row, head]
    torch.testing.assert_close(written(memory, weights, erase, add), expected)


def test_a_cell_that_is_fully_attended_and_erased_holds_what_was_added() -> None:
    memory, add = torch.randn(1, CELLS, SIZE), torch.randn(1, 1, SIZE)
    place = F.one_hot(torch.tensor([[3]]), CELLS).float()
    after = written(memory, place, torch.ones(1, 1, SIZE), add)
    torch.testing.assert_close(after[0, 3], add[0, 0])
    torch.testing.assert_close(after[0, :3], memory[0, :3])


def queries(shift: int = 1) -> Tensor:
    wishes = torch.randn(BATCH, HEADS, wishes_size(SIZE, shift))
    return torch.cat([wishes, some_weights()], -1)


def naive(query: Tensor, memory: Tensor, shift: int) -> Tensor:
    """The whole of section 3.3, one head of one row: from its wishes and old weights to its new ones."""
    key, beta, gate = query[:SIZE], F.softplus(query[SIZE]), torch.sigmoid(query[SIZE + 1])
    moves = query[SIZE + 2 : SIZE + 3 + 2 * shift].softmax(0)
    gamma, before = 1 + F.softplus(query[SIZE + 3 + 2 * shift]), query[SIZE + 4 + 2 * shift :]
    cosines = [float(key @ cell / (key.norm() * cell.norm())) for cell in memory]
    content = torch.tensor([math.exp(beta * cosine) for cosine in cosines])
    gated = gate * content / content.sum() + (1 - gate) * before
    moved = torch.tensor(
        [sum(float(gated[(i - move) % CELLS] * moves[move + shift]) for move in range(-shift, shift + 1))
         for i in range(CELLS)]
    )  # fmt: skip
    return moved**gamma / (moved**gamma).sum()


@pytest.mark.parametrize("shift", [1, 2])
def test_addressing_is_content_then_gate_then_shift_then_sharpening(shift: int) -> None:
    memory, query = torch.randn(BATCH, CELLS, SIZE), queries(shift)
    attention = addressing(CELLS, SIZE, shift)
    attended = attention(query, attention.remember(memory))
    for row in range(BATCH):
        for head in range(HEADS):
            expected = naive(query[row, head], memory[row], shift)
            torch.testing.assert_close(attended.weights[row, head], expected, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(attended.context[row, head], expected @ memory[row], atol=1e-5, rtol=1e-4)


def test_weights_stay_a_distribution() -> None:
    attention = addressing(CELLS, SIZE, 1)
    weights = attention(100 * queries(), attention.remember(torch.randn(BATCH, CELLS, SIZE))).weights
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS))


@pytest.mark.parametrize("content", [0.0, 1e-30, 1e-6])
def test_an_empty_memory_gives_finite_weights_and_gradients(content: float) -> None:
    memory = torch.full((BATCH, CELLS, SIZE), content, requires_grad=True)
    query = queries().requires_grad_()
    attention = addressing(CELLS, SIZE, 1)
    attended = attention(query, attention.remember(memory))
    attended.context.square().sum().backward()
    for tensor in (attended.weights, query.grad, memory.grad):
        assert torch.isfinite(tensor).all()


def test_recording_sees_the_final_weights_one_row_per_head() -> None:
    attention = addressing(CELLS, SIZE, 1)
    memory = attention.remember(torch.randn(BATCH, CELLS, SIZE))
    with record(attention) as tape:
        attended = attention(queries(), memory)
    assert torch.equal(tape[""], attended.weights.unsqueeze(1))
