"""Score -> align -> read: any score with any alignment, and what both paths have in common."""

import pytest
import torch

from regard.attention import ALIGNMENTS, SCORES, Attention, Dot, General, Soft, named_attention

EVERY_ATTENTION = [(score, align) for score in SCORES for align in ALIGNMENTS]


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("name", SCORES)
def test_soft_attention_reads_with_the_softmax_of_its_score(name: str) -> None:
    attention = named_attention(name, "soft", 4, 4)
    query, states = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    memory = attention.remember(states)
    attended = attention(query, memory)
    weights = attention.score(query, memory).softmax(-1)
    torch.testing.assert_close(attended.weights, weights)
    torch.testing.assert_close(attended.context, weights @ states)


@pytest.mark.parametrize(("score", "align"), EVERY_ATTENTION)
def test_the_context_is_what_the_weights_read(score: str, align: str) -> None:
    attention = named_attention(score, align, 4, 4)  # training mode: hard draws
    values = torch.randn(2, 5, 7)
    attended = attention(torch.randn(2, 3, 4), attention.remember(torch.randn(2, 5, 4), values=values))
    assert attended.context.shape == (2, 3, 7)
    assert attended.weights.shape == (2, 3, 5)
    torch.testing.assert_close(attended.context, attended.weights @ values)
    assert (attended.log_probability is not None) == (align == "hard")


@pytest.mark.parametrize(("score", "align"), EVERY_ATTENTION)
def test_a_memory_asked_step_by_step_answers_as_if_asked_at_once(score: str, align: str) -> None:
    attention = named_attention(score, align, 4, 4).eval()
    query = torch.randn(2, 6, 4)
    mask = torch.tensor([[True] * 5, [False, True, True, True, False]])
    memory = attention.remember(torch.randn(2, 5, 4), mask)
    at_once = attention(query, memory)
    for t in range(6):
        step = attention(query[:, t : t + 1], memory, places=torch.tensor([t]))
        torch.testing.assert_close(step.context, at_once.context[:, t : t + 1])
        torch.testing.assert_close(step.weights, at_once.weights[:, t : t + 1])


@pytest.mark.parametrize(("score", "align"), EVERY_ATTENTION)
def test_every_parameter_of_an_attention_gets_a_gradient(score: str, align: str) -> None:
    attention = named_attention(score, align, 4, 4)
    attended = attention(torch.randn(3, 4, 4), attention.remember(torch.randn(3, 5, 4)))
    # A hard choice has no gradient of its own: REINFORCE reaches the score through the log-probability.
    loss = attended.context.square().sum()
    loss = loss if attended.log_probability is None else loss + attended.log_probability.sum()
    if list(attention.parameters()):
        loss.backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_states_are_their_own_values_unless_others_are_given() -> None:
    attention = Attention(General(4, 6))
    states, values = torch.randn(2, 5, 6), torch.randn(2, 5, 3)
    assert attention.remember(states).values is states
    assert attention.remember(states, values=values).values is values


def test_keys_are_projected_once_by_remember() -> None:
    attention = Attention(General(4, 6))
    states = torch.randn(2, 5, 6)
    memory = attention.remember(states)
    torch.testing.assert_close(memory.keys, states @ attention.score.weight.weight.T)
    assert attention(torch.randn(2, 1, 4), memory).memory is memory


def test_attention_is_soft_unless_told_otherwise() -> None:
    assert isinstance(Attention(Dot(4, 4)).align, Soft)


@pytest.mark.parametrize(("score", "align"), EVERY_ATTENTION)
def test_attention_works_without_a_batch_axis(score: str, align: str) -> None:
    attention = named_attention(score, align, 4, 4).eval()
    query, states = torch.randn(3, 4), torch.randn(5, 4)
    alone = attention(query, attention.remember(states))
    batched = attention(query[None], attention.remember(states[None]))
    torch.testing.assert_close(alone.context, batched.context[0])
    torch.testing.assert_close(alone.weights, batched.weights[0])
