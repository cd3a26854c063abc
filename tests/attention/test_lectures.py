"""The worked examples of the lectures, with their numbers."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attention, Dot, LocalPredictive, Location, Memory, MultiHeadAttention, Soft, attend
from regard.attention.alignments import Queries

QUERIES = torch.tensor([[1.0, 0, 2], [2, 2, 2], [2, 1, 3]])
KEYS = torch.tensor([[0.0, 1, 1], [4, 4, 0], [2, 3, 1]])
VALUES = torch.tensor([[1.0, 2, 3], [2, 8, 0], [2, 6, 3]])


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def test_three_tokens_attend_to_themselves() -> None:
    scores = [[2.0, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert torch.equal(QUERIES @ KEYS.T, torch.tensor(scores))
    attended = attend(QUERIES, KEYS, VALUES, scale=1.0)
    exact = torch.tensor([softmax(row) for row in scores])
    torch.testing.assert_close(attended.weights, exact, atol=1e-4, rtol=0)
    torch.testing.assert_close(attended.weights[0], torch.tensor([0.0634, 0.4683, 0.4683]), atol=1e-4, rtol=0)
    torch.testing.assert_close(attended.context, exact @ VALUES, atol=1e-4, rtol=0)


def test_the_slides_round_the_weights_of_the_three_tokens_before_reading() -> None:
    # The slides write 0.0 for the exact 0.063 and read with the rounded weights. Their outputs follow from
    # theirs, and ours lie where exact weights put them: within 0.07 of the rounded ones.
    rounded = torch.tensor([[0.0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]])
    outputs = torch.tensor([[2.0, 7.0, 1.5], [2, 8, 0], [2, 7.8, 0.3]])
    torch.testing.assert_close(rounded @ VALUES, outputs)
    attended = attend(QUERIES, KEYS, VALUES, scale=1.0)
    torch.testing.assert_close(attended.weights, rounded, atol=0.07, rtol=0)
    torch.testing.assert_close(attended.context, outputs, atol=0.35, rtol=0)


def test_the_attention_of_three_tokens_by_the_dot_score_is_the_same() -> None:
    attention = Attention(Dot(3, 3))
    by_score = attention(QUERIES[None], attention.remember(KEYS[None], values=VALUES[None]))
    torch.testing.assert_close(by_score.context[0], attend(QUERIES, KEYS, VALUES, scale=1.0).context)


def test_she_is_eating_a_green_apple() -> None:
    torch.manual_seed(0)
    she, being, eating, a, green = words = torch.randn(5, 6)
    wanted = torch.tensor([0.1, 0.1, 0.5, 0.1, 0.2])
    memory = Memory(words, words)
    apple = Queries(torch.zeros(1, 6), torch.tensor([5]))
    weights = Soft()(wanted.log()[None], None, apple, memory).weights
    torch.testing.assert_close(weights[0], wanted)
    context = 0.1 * she + 0.1 * being + 0.5 * eating + 0.1 * a + 0.2 * green
    torch.testing.assert_close((weights @ memory.values)[0], context)

    # The same as one whole attention: a location score whose query says log(w) for each place.
    attention = Attention(Location(1, 6, max_keys=5))
    with torch.no_grad():
        attention.score.place.weight.copy_(wanted.log()[:, None])
    attended = attention(torch.ones(1, 1, 1), attention.remember(words[None]))
    torch.testing.assert_close(attended.weights[0], wanted[None])
    torch.testing.assert_close(attended.context[0, 0], context)


def sinusoids(length: int, size: int) -> Tensor:
    """sin and cos of place / 10000^(2i / size), in turn."""
    table = torch.zeros(length, size)
    for place in range(length):
        for i in range(0, size, 2):
            angle = place / 10000 ** (i / size)
            table[place, i], table[place, i + 1] = math.sin(angle), math.cos(angle)
    return table


def with_itself(states: Tensor) -> Tensor:
    """Self-attention without any parameter: query = key = value."""
    return attend(states, states, states).context


def test_self_attention_without_positions_does_not_know_the_order_of_words() -> None:
    torch.manual_seed(0)
    states, order = torch.randn(6, 8), torch.tensor([3, 1, 5, 0, 4, 2])
    torch.testing.assert_close(with_itself(states[order]), with_itself(states)[order])
    learnt = MultiHeadAttention(8, 2)
    shuffled, straight = learnt(states[None, order]).context, learnt(states[None]).context
    torch.testing.assert_close(shuffled, straight[:, order], atol=1e-6, rtol=1e-5)


def test_positions_tell_self_attention_the_order_of_words() -> None:
    torch.manual_seed(0)
    states, order = torch.randn(6, 8), torch.tensor([3, 1, 5, 0, 4, 2])
    places = sinusoids(6, 8)
    difference = with_itself(states[order] + places) - with_itself(states + places)[order]
    assert difference.abs().max() > 0.1


def test_the_gaussian_of_local_p_by_hand() -> None:
    # Eight keys of equal score, D = 2, and a query that predicts p = 8 sigmoid(0) = 4. The window is 2..6, so the
    # softmax gives a fifth to each; sigma = 1, so distances 0, 1, 2 multiply by 1, e^-1/2 = 0.6065, e^-2 = 0.1353.
    alignment = LocalPredictive(3, reach=2)
    nn.init.zeros_(alignment.place.weight)
    keys = torch.zeros(1, 8, 3)
    query = Queries(torch.ones(1, 1, 3), torch.tensor([0]))
    weights = alignment(torch.zeros(1, 1, 8), None, query, Memory(keys, keys)).weights
    expected = torch.tensor([0, 0, 0.02707, 0.12131, 0.2, 0.12131, 0.02707, 0])
    torch.testing.assert_close(weights[0, 0].detach(), expected, atol=1e-5, rtol=0)
    assert weights.sum().item() == pytest.approx(0.49675, abs=1e-4)  # not renormalised


def test_the_neural_turing_machine_reads_a_blend_of_its_cells() -> None:
    torch.manual_seed(0)
    cells = torch.randn(5, 4)  # M
    memory = Memory(cells, cells)
    head = Queries(torch.zeros(1, 4), torch.tensor([0]))
    weights = Soft()(torch.randn(1, 5), None, head, memory).weights  # w
    assert weights.sum().item() == pytest.approx(1.0)
    assert (weights >= 0).all()
    read = sum(weights[0, i] * cells[i] for i in range(5))  # r = sum_i w(i) M(i)
    torch.testing.assert_close((weights @ memory.values)[0], read)


def test_a_very_sharp_query_is_a_lookup() -> None:
    """SELECT value FROM table WHERE key = query"""
    keys = torch.eye(4)
    values = torch.tensor([[10.0, 1], [20, 2], [30, 3], [40, 4]])
    for row in range(4):
        answer = attend(1000 * keys[row : row + 1], keys, values, scale=1.0)
        assert torch.equal(answer.context, values[row : row + 1])
        assert torch.equal(answer.weights, keys[row : row + 1])
    nobody_matches = attend(torch.zeros(1, 4), keys, values)
    torch.testing.assert_close(nobody_matches.context, values.mean(0, keepdim=True))
