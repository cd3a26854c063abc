"""Every alignment against a loop that spells its definition."""

import math

import pytest
import torch
from torch import Tensor, nn

from equations import softmax
from regard.attention import (
    ALIGNMENTS,
    Alignment,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Memory,
    Soft,
    masks,
    named_attention,
)
from regard.attention.alignments import Aligned, Queries, masked_softmax
from regard.errors import RegardError, UsageError

SIZE = 4


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def align(
    alignment: Alignment,
    scores: Tensor,
    mask: Tensor | None = None,
    vectors: Tensor | None = None,
    places: Tensor | None = None,
) -> Aligned:
    """Give an alignment the scores [batch, queries, keys] of a memory whose contents do not matter."""
    batch, queries, keys = scores.shape
    memory = Memory(torch.zeros(batch, keys, SIZE), torch.zeros(batch, keys, SIZE), mask)
    vectors = torch.zeros(batch, queries, SIZE) if vectors is None else vectors
    places = torch.arange(queries) if places is None else places
    return alignment(scores, masks.over_queries(mask), Queries(vectors, places), memory)


def softmax_over(scores: Tensor, keys: list[int]) -> Tensor:
    """exp(s_i) / sum exp(s_j) over the given keys, zero elsewhere."""
    weights = torch.zeros(len(scores))
    total = sum(math.exp(scores[key]) for key in keys)
    for key in keys:
        weights[key] = math.exp(scores[key]) / total
    return weights


# The weights of one sentence from its scores, asked by h at time t


def soft(align: nn.Module, scores: list[Tensor], h: Tensor, time: int) -> list[Tensor]:
    return softmax(scores)


def hard(align: nn.Module, scores: list[Tensor], h: Tensor, time: int) -> list[Tensor]:
    best = max(range(len(scores)), key=lambda place: scores[place].item())
    return [torch.tensor(float(place == best)) for place in range(len(scores))]


def within(scores: list[Tensor], near: list[int]) -> list[Tensor]:
    """The softmax over some places, zero elsewhere."""
    weights = dict(zip(near, softmax([scores[place] for place in near]), strict=True))
    return [weights.get(place, torch.zeros(())) for place in range(len(scores))]


def local_m(align: nn.Module, scores: list[Tensor], h: Tensor, time: int) -> list[Tensor]:
    p = min(time, len(scores) - 1)
    return within(scores, [place for place in range(len(scores)) if p - align.reach <= place <= p + align.reach])


def local_p(align: nn.Module, scores: list[Tensor], h: Tensor, time: int) -> list[Tensor]:
    p = len(scores) * torch.sigmoid(align.place.weight[0] @ torch.tanh(align.hidden.weight @ h))
    near = [place for place in range(len(scores)) if p - align.reach <= place <= p + align.reach]
    sigma = align.reach / 2
    gaussian = [torch.exp(-((place - p) ** 2) / (2 * sigma**2)) for place in range(len(scores))]
    return [weight * height for weight, height in zip(within(scores, near), gaussian, strict=True)]


LOOPS = {"soft": soft, "hard": hard, "local_m": local_m, "local_p": local_p}


def some_mask() -> Tensor:
    """Padding on the right, on the left, on both sides, nowhere, everywhere."""
    return torch.tensor(
        [
            [True, True, True, True, False, False, False],
            [False, False, True, True, True, True, True],
            [False, True, True, True, True, True, False],
            [True] * 7,
            [False] * 7,
        ]
    )


def test_soft_is_the_softmax_over_the_keys_that_may_be_attended_to() -> None:
    mask = some_mask()
    scores = torch.randn(5, 3, 7)
    weights = align(Soft(), scores, mask).weights
    for b in range(5):
        real = mask[b].nonzero().flatten().tolist()
        for t in range(3):
            torch.testing.assert_close(weights[b, t], softmax_over(scores[b, t], real))


def test_soft_without_a_mask_is_the_plain_softmax() -> None:
    scores = torch.randn(2, 3, 7)
    torch.testing.assert_close(align(Soft(), scores).weights[1, 2], softmax_over(scores[1, 2], list(range(7))))


def test_soft_can_be_as_sharp_as_the_scores_are_far_apart() -> None:
    scores = torch.tensor([[[-1e30, 3.0, 1e30], [1e38, 1e38, -1e38]]])
    assert torch.equal(align(Soft(), scores).weights, torch.tensor([[[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_masked_softmax_is_finite_in_every_precision(dtype: torch.dtype) -> None:
    scores = torch.randn(2, 3, 4).to(dtype).requires_grad_()
    allowed = torch.tensor([[[True, False, True, True]], [[False] * 4]])
    weights = masked_softmax(scores, allowed)
    (gradient,) = torch.autograd.grad((weights * torch.randn(2, 3, 4).to(dtype)).sum(), scores)
    assert weights.dtype == dtype
    assert weights.isfinite().all()
    assert gradient.isfinite().all()
    assert not weights[1].any()
    assert not gradient[1].any()
    assert not gradient[0, :, 1].any()


def test_hard_chooses_the_best_key_in_evaluation() -> None:
    mask = some_mask()
    scores = torch.randn(5, 3, 7)
    aligned = align(Hard().eval(), scores, mask)
    for b in range(4):
        real = mask[b].nonzero().flatten().tolist()
        for t in range(3):
            best = max(real, key=lambda key: scores[b, t, key].item())
            expected = torch.zeros(7)
            expected[best] = 1.0
            assert torch.equal(aligned.weights[b, t], expected)
            chance = softmax_over(scores[b, t], real)[best]
            torch.testing.assert_close(aligned.log_probability[b, t], chance.log())
    assert not aligned.weights[4].any()
    assert not aligned.log_probability[4].any()


def test_hard_samples_one_key_at_a_time_while_training_as_often_as_the_softmax_says() -> None:
    draws = 20_000
    scores = torch.tensor([1.0, -0.5, 9.0, 2.0, 0.0])
    mask = torch.tensor([[True, True, False, True, True]])
    weights = align(Hard().train(), scores.expand(1, draws, 5), mask).weights[0]
    assert torch.equal(weights.sum(-1), torch.ones(draws))
    assert ((weights == 0) | (weights == 1)).all()
    expected = softmax_over(scores, [0, 1, 3, 4])
    five_deviations = 5 * (expected * (1 - expected) / draws).sqrt()
    assert ((weights.mean(0) - expected).abs() <= five_deviations).all()
    assert not weights[:, 2].any()


def test_the_log_probability_of_a_draw_is_that_of_the_chosen_key_and_carries_its_gradient() -> None:
    scores = torch.randn(2, 3, 5, requires_grad=True)
    aligned = align(Hard().train(), scores)
    chosen = aligned.weights.argmax(-1)
    for b in range(2):
        for t in range(3):
            probabilities = softmax_over(scores[b, t].detach(), list(range(5)))
            expected = probabilities[chosen[b, t]].log()
            torch.testing.assert_close(aligned.log_probability[b, t].detach(), expected)
    (gradient,) = torch.autograd.grad(aligned.log_probability.sum(), scores)
    # d log softmax(s)_c / d s = one_hot(c) - softmax(s): what REINFORCE multiplies with the reward
    torch.testing.assert_close(gradient, aligned.weights - scores.detach().softmax(-1))


def test_a_draw_among_nothing_is_nothing() -> None:
    scores = torch.randn(1, 2, 3, requires_grad=True)
    aligned = align(Hard().train(), scores, torch.zeros(1, 3, dtype=torch.bool))
    assert not aligned.weights.any()
    assert not aligned.log_probability.any()
    (gradient,) = torch.autograd.grad(aligned.log_probability.sum(), scores)
    assert torch.equal(gradient, torch.zeros(1, 2, 3))


@pytest.mark.parametrize("reach", [1, 2, 3])
@pytest.mark.parametrize("has_mask", [False, True])
def test_local_m_looks_around_the_diagonal_and_stops_at_both_edges(reach: int, has_mask: bool) -> None:
    mask = some_mask() if has_mask else None
    targets = 11  # longer than the source of 7: later queries stay at the last key
    scores = torch.randn(5, targets, 7)
    weights = align(LocalMonotonic(reach=reach), scores, mask).weights
    for b in range(5):
        real = mask[b].nonzero().flatten().tolist() if has_mask else list(range(7))
        for t in range(targets):
            centre = min(t, len(real) - 1)
            near = [key for place, key in enumerate(real) if abs(place - centre) <= reach]
            torch.testing.assert_close(weights[b, t], softmax_over(scores[b, t], near))


def test_local_m_at_the_edges_by_hand() -> None:
    weights = align(LocalMonotonic(reach=1), torch.zeros(1, 5, 4)).weights[0]
    third = 1 / 3
    expected = [
        [0.5, 0.5, 0.0, 0.0],
        [third, third, third, 0.0],
        [0.0, third, third, third],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, 0.5, 0.5],
    ]
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_local_m_follows_the_places_it_is_told() -> None:
    scores = torch.randn(2, 6, 7)
    every_row = align(LocalMonotonic(reach=1), scores).weights
    one_step = align(LocalMonotonic(reach=1), scores[:, 4:5], places=torch.tensor([4])).weights
    assert torch.equal(one_step, every_row[:, 4:5])
    each_its_own = align(LocalMonotonic(reach=1), scores[:, 3:4], places=torch.tensor([[3], [5]])).weights
    assert torch.equal(each_its_own[0], every_row[0, 3:4])
    torch.testing.assert_close(each_its_own[1, 0], softmax_over(scores[1, 3], [4, 5, 6]))


@pytest.mark.parametrize("reach", [1, 2, 5])
@pytest.mark.parametrize("has_mask", [False, True])
def test_local_p_is_the_windowed_softmax_times_a_gaussian_that_is_not_renormalised(reach: int, has_mask: bool) -> None:
    mask = some_mask() if has_mask else None
    alignment = LocalPredictive(SIZE, reach=reach)
    nn.init.normal_(alignment.place.weight)
    scores, vectors = torch.randn(5, 3, 7), torch.randn(5, 3, SIZE)
    weights = align(alignment, scores, mask, vectors).weights.detach()
    sigma = reach / 2
    for b in range(5):
        real = mask[b].nonzero().flatten().tolist() if has_mask else list(range(7))
        for t in range(3):
            energy = alignment.place.weight[0] @ torch.tanh(alignment.hidden.weight @ vectors[b, t])
            p = len(real) / (1 + math.exp(-energy.item()))
            near = {key: place for place, key in enumerate(real) if p - reach <= place <= p + reach}
            expected = softmax_over(scores[b, t], list(near))
            for key, place in near.items():
                expected[key] *= math.exp(-((place - p) ** 2) / (2 * sigma**2))
            torch.testing.assert_close(weights[b, t], expected)
            assert weights[b, t].sum() < 1


def test_local_p_predicts_the_middle_of_the_real_keys_when_it_knows_nothing() -> None:
    alignment = LocalPredictive(SIZE, reach=2)
    nn.init.zeros_(alignment.place.weight)  # sigmoid(0) = 1/2
    memory = Memory(torch.zeros(5, 7, SIZE), torch.zeros(5, 7, SIZE), some_mask())
    places = alignment.predict(torch.randn(5, 1, SIZE), memory)
    assert places.flatten().tolist() == [2.0, 2.5, 2.5, 3.5, 0.0]


def test_local_p_always_has_a_key_in_its_window() -> None:
    alignment = LocalPredictive(SIZE, reach=1)
    vectors = torch.cat([torch.full((1, 1, SIZE), 100.0), torch.full((1, 1, SIZE), -100.0)], dim=1)
    nn.init.ones_(alignment.hidden.weight)
    nn.init.constant_(alignment.place.weight, 100.0)  # the prediction is n and 0, as far out as it can be
    weights = align(alignment, torch.zeros(1, 2, 6), vectors=vectors).weights[0]
    torch.testing.assert_close(weights[0], torch.tensor([0.0, 0, 0, 0, 0, math.exp(-2)]))
    torch.testing.assert_close(weights[1], torch.tensor([0.5, 0.5 * math.exp(-2), 0, 0, 0, 0]))


def test_every_parameter_of_local_p_gets_a_gradient() -> None:
    alignment = LocalPredictive(SIZE, reach=2)
    align(alignment, torch.randn(2, 3, 7), vectors=torch.randn(2, 3, SIZE)).weights.sum().backward()
    for name, parameter in alignment.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("kind", [LocalMonotonic, LocalPredictive])
def test_a_local_alignment_must_reach_somewhere(kind: type[Alignment]) -> None:
    with pytest.raises(RegardError, match=r"at least 1 key.*not 0"):
        kind(SIZE, reach=0)


def test_local_p_cannot_predict_from_a_query_of_unknown_size() -> None:
    with pytest.raises(RegardError, match="query_size"):
        LocalPredictive()


def test_an_alignment_that_does_not_exist_is_refused_with_those_that_do() -> None:
    assert set(LOOPS) == set(ALIGNMENTS) >= {"soft", "hard", "local_m", "local_p"}
    with pytest.raises(UsageError, match=r"'stochastic'.*soft, hard, local_m, local_p"):
        named_attention("dot", "stochastic", 4, 4)
