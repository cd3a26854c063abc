"""Every score against a loop that spells its equation: one query, one key, plain vector maths."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.attention import SCORES, Additive, Cosine, General, Location, Memory, Score, named_attention
from regard.errors import RegardError, UsageError

QUERY_SIZE, KEY_SIZE = 5, 3
NEEDS_EQUAL_SIZES = ("dot", "scaled_dot", "cosine")


def dot(score: Score, q: Tensor, k: Tensor, place: int) -> Tensor:
    return sum(q[n] * k[n] for n in range(len(q)))


def scaled_dot(score: Score, q: Tensor, k: Tensor, place: int) -> Tensor:
    return dot(score, q, k, place) / math.sqrt(len(q))


def general(score: General, q: Tensor, k: Tensor, place: int) -> Tensor:
    return torch.dot(q, torch.mv(score.weight.weight, k))


def additive(score: Additive, q: Tensor, k: Tensor, place: int) -> Tensor:
    w, u, v = score.query.weight, score.key.weight, score.energy.weight[0]
    return torch.dot(v, torch.tanh(torch.mv(w, q) + torch.mv(u, k)))


def cosine(score: Cosine, q: Tensor, k: Tensor, place: int) -> Tensor:
    lengths = torch.dot(q, q).sqrt() * torch.dot(k, k).sqrt()
    return score.sharpness * torch.dot(q, k) / lengths


def location(score: Location, q: Tensor, k: Tensor, place: int) -> Tensor:
    return torch.dot(score.place.weight[place], q)


EQUATIONS: dict[str, Callable[[Score, Tensor, Tensor, int], Tensor]] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "concat": additive,
    "cosine": cosine,
    "location": location,
}


def build(name: str) -> Score:
    key_size = QUERY_SIZE if name in NEEDS_EQUAL_SIZES else KEY_SIZE
    score = SCORES[name](QUERY_SIZE, key_size)
    for parameter in score.parameters():  # away from the initial values, so that beta = 1 cannot hide
        torch.nn.init.normal_(parameter, mean=0.7)
    return score


@torch.no_grad()
def spelled_out(name: str, score: Score, query: Tensor, states: Tensor) -> Tensor:
    rows = [
        [[EQUATIONS[name](score, q, k, place) for place, k in enumerate(states[b])] for q in query[b]]
        for b in range(len(query))
    ]
    return torch.tensor(rows)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def test_every_score_has_its_equation_here() -> None:
    assert set(EQUATIONS) == set(SCORES)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("batch", "queries", "keys"), [(1, 1, 1), (2, 1, 4), (3, 4, 2)])
def test_a_score_is_its_equation(name: str, batch: int, queries: int, keys: int) -> None:
    score = build(name)
    query, states = torch.randn(batch, queries, score.query_size), torch.randn(batch, keys, score.key_size)
    scores = score(query, Memory(score.prepare_keys(states), states))
    torch.testing.assert_close(scores.detach(), spelled_out(name, score, query, states))


@pytest.mark.parametrize("name", SCORES)
def test_a_score_works_without_a_batch_axis(name: str) -> None:
    score = build(name)
    query, states = torch.randn(2, score.query_size), torch.randn(4, score.key_size)
    scores = score(query, Memory(score.prepare_keys(states), states))
    torch.testing.assert_close(scores.detach(), spelled_out(name, score, query[None], states[None])[0])


@pytest.mark.parametrize("name", [name for name in SCORES if SCORES[name].is_inner])
def test_an_inner_score_is_the_inner_product_of_what_it_prepared(name: str) -> None:
    score = build(name)
    query, states = torch.randn(2, 3, score.query_size), torch.randn(2, 4, score.key_size)
    inner = score.prepare_query(query) @ score.prepare_keys(states).mT
    torch.testing.assert_close(inner.detach(), spelled_out(name, score, query, states))


@pytest.mark.parametrize("name", SCORES)
def test_every_parameter_of_a_score_gets_a_gradient(name: str) -> None:
    score = build(name)
    query, states = torch.randn(2, 3, score.query_size), torch.randn(2, 4, score.key_size)
    loss = (score(query, Memory(score.prepare_keys(states), states)) ** 2).sum()
    if list(score.parameters()):  # dot and scaled dot have none
        loss.backward()
    for parameter_name, parameter in score.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("name", NEEDS_EQUAL_SIZES)
def test_scores_that_compare_element_by_element_refuse_unequal_sizes(name: str) -> None:
    with pytest.raises(RegardError, match=r"sizes are 4 and 6.*make the sizes equal"):
        SCORES[name](4, 6)


def test_concat_is_the_additive_score_with_its_two_matrices_side_by_side() -> None:
    assert SCORES["concat"] is SCORES["additive"]
    score = Additive(QUERY_SIZE, KEY_SIZE, hidden_size=7)
    q, k = torch.randn(QUERY_SIZE), torch.randn(KEY_SIZE)
    joined = torch.cat([score.query.weight, score.key.weight], dim=1)  # W = [W_q, W_k]
    expected = score.energy.weight[0] @ torch.tanh(joined @ torch.cat([q, k]))
    found = score(q[None], Memory(score.prepare_keys(k[None]), k[None]))
    torch.testing.assert_close(found.squeeze(), expected)


def test_the_sharpness_of_the_cosine_starts_at_one() -> None:
    score = Cosine(3, 3)
    direction = torch.tensor([[3.0, 0.0, 4.0]])
    same_way = score(direction, Memory(score.prepare_keys(7 * direction), direction))
    assert same_way.item() == pytest.approx(1.0)


def test_the_cosine_with_a_zero_vector_is_zero_and_has_a_gradient_without_nan() -> None:
    score = Cosine(3, 3)
    query, states = torch.zeros(1, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    scores = score(query, Memory(score.prepare_keys(states), states))
    assert torch.equal(scores, torch.zeros(1, 2))
    for gradient in torch.autograd.grad(scores.sum(), [query, states, score.sharpness]):
        assert gradient.isfinite().all()


def test_location_refuses_more_keys_than_it_has_places_for() -> None:
    score = Location(QUERY_SIZE, KEY_SIZE, max_keys=4)
    states = torch.randn(1, 5, KEY_SIZE)
    with pytest.raises(RegardError, match=r"knows 4 places but was given 5 keys.*larger max_keys"):
        score(torch.randn(1, 2, QUERY_SIZE), Memory(states, states))


def test_location_counts_places_among_the_real_keys() -> None:
    score = Location(QUERY_SIZE, KEY_SIZE, max_keys=6)
    query, states = torch.randn(1, 1, QUERY_SIZE), torch.randn(1, 5, KEY_SIZE)
    mask = torch.tensor([[False, False, True, True, True]])
    scores = score(query, Memory(states, states, mask))[0, 0]
    for place, key in enumerate([2, 3, 4]):
        torch.testing.assert_close(scores[key], torch.dot(score.place.weight[place], query[0, 0]))


def test_padding_takes_no_places_of_the_location_score() -> None:
    """Padding amount never changes a result, so it never makes a short input too long either."""
    score = Location(QUERY_SIZE, KEY_SIZE, max_keys=3)
    query, states = torch.randn(1, 1, QUERY_SIZE), torch.randn(1, 5, KEY_SIZE)
    mask = torch.tensor([[False, False, True, True, True]])
    scores = score(query, Memory(states, states, mask))
    torch.testing.assert_close(scores[0, 0, 2:], score.place.weight @ query[0, 0])


def test_a_score_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"'bilinear'.*dot, scaled_dot, general"):
        named_attention("bilinear", "soft", 4, 4)
