"""Greedy decoding and sampling against loops, and the moving of decoder states."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decoding.protocol import Vocabulary, take_rows
from regard.decoding.stepwise import decode_stepwise, greedy, head, sampler

START, END = 0, 1
VOCABULARY = Vocabulary(START, END, never=(START,))
STATES = 997


class Toy:
    """The next token depends on the source and on all that was said, through one number."""

    def __init__(self, seed: int, words: int = 6):
        self.logits = 1.5 * torch.randn(STATES, words, generator=torch.Generator().manual_seed(seed))
        self.rows: list[int] = []

    def start(self, source: Tensor) -> tuple[Tensor, None]:
        return source[:, 0] * 17 % STATES, None

    def step(self, tokens: Tensor, state: tuple[Tensor, None]) -> tuple[Tensor, tuple[Tensor, None]]:
        self.rows.append(len(tokens))
        history = (state[0] * 37 + tokens + 11) % STATES
        return self.logits[history], (history, None)


def one_step(probabilities: list[float], rows: int = 1) -> Tensor:
    return torch.tensor([probabilities] * rows).log()


def far_from(counts: Tensor, probabilities: list[float]) -> float:
    """Pearson's chi-square of drawn tokens against what was expected."""
    expected = torch.tensor(probabilities) * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


# Greedy


def test_greedy_takes_the_best_token_until_the_end_or_the_limit() -> None:
    toy, limits = Toy(0), [1, 2, 3, 9, 9, 9, 9, 9]
    found = decode_stepwise(toy, torch.arange(8)[:, None], VOCABULARY, limits, greedy, length_penalty=0.6)
    ends = set()
    for number, limit in enumerate(limits):
        history, token, said, total = number * 17 % STATES, START, [], 0.0
        while token != END and len(said) < limit:
            history = (history * 37 + token + 11) % STATES
            log_p = toy.logits[history].double().log_softmax(-1).tolist()
            token = max(range(1, len(log_p)), key=lambda word: log_p[word])
            total += log_p[token]
            if token != END:
                said.append(token)
        (known,) = found[number]
        assert (known.tokens, known.finished) == (said, token == END)
        assert known.log_probability == pytest.approx(total, abs=1e-5)
        assert known.score == pytest.approx(total / (len(said) + (token == END)) ** 0.6, abs=1e-5)
        ends.add(known.finished)
    assert ends == {True, False}  # both ways of stopping were seen


def test_finished_sentences_leave_the_batch() -> None:
    toy = Toy(1)
    toy.logits[:, END] -= 50
    decode_stepwise(toy, torch.arange(6)[:, None], VOCABULARY, [3, 1, 1, 3, 2, 4], greedy)
    assert toy.rows == [6, 4, 3, 1]


def test_tokens_that_may_never_be_said_are_not() -> None:
    toy = Toy(2)
    toy.logits[:, [START, 3]] += 5
    vocabulary = Vocabulary(START, END, never=(START, 3))
    for choose in (greedy, sampler(range(20), 0)):
        found = decode_stepwise(toy, torch.arange(20)[:, None], vocabulary, [6] * 20, choose)
        assert {token for (known,) in found for token in known.tokens} == {2, 4, 5}


def test_no_sentences_give_no_hypotheses() -> None:
    assert decode_stepwise(Toy(0), torch.empty(0, 1, dtype=torch.long), VOCABULARY, [], greedy) == []


# Sampling

DISTRIBUTION = [0.4, 0.25, 0.2, 0.1, 0.04, 0.01]
FAR = 20.5  # chi-square with five degrees of freedom exceeds this once in a thousand


def test_draws_of_one_sentence_follow_the_distribution() -> None:
    choose, log_p = sampler([0], seed=0), one_step(DISTRIBUTION)
    drawn = torch.cat([choose(log_p, [0]) for _ in range(3000)])
    assert far_from(drawn.bincount(minlength=6), DISTRIBUTION) < FAR


def test_first_draws_of_many_sentences_follow_the_distribution() -> None:
    drawn = sampler(range(3000), seed=0)(one_step(DISTRIBUTION, 3000), list(range(3000)))
    assert far_from(drawn.bincount(minlength=6), DISTRIBUTION) < FAR


def test_the_temperature_sharpens_or_flattens_the_distribution() -> None:
    for temperature in (0.5, 2.0):
        powers = [probability ** (1 / temperature) for probability in DISTRIBUTION]
        expected = [power / sum(powers) for power in powers]
        choose = sampler(range(3000), seed=0, temperature=temperature)
        counts = choose(one_step(DISTRIBUTION, 3000), list(range(3000))).bincount(minlength=6)
        assert far_from(counts, expected) < FAR
        assert far_from(counts, DISTRIBUTION) > FAR


def test_without_temperature_sampling_is_greedy() -> None:
    log_p = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    drawn = sampler(range(200), seed=0, temperature=1e-6)(log_p, list(range(200)))
    assert torch.equal(drawn, greedy(log_p, list(range(200))))
    warm = sampler(range(200), seed=0)(log_p, list(range(200)))
    assert not torch.equal(warm, drawn)


@pytest.mark.parametrize("top_k", range(1, 7))
def test_of_tied_tokens_top_k_keeps_the_first_and_never_more_than_k(top_k: int) -> None:
    """By the definition: the tokens sorted by probability, of equals the one with the lower number first."""
    rows = torch.tensor([[1, 1, 1, 1, 1, 1], [2, 3, 3, 2, 3, 1], [5, 1, 4, 2, 3, 0], [1, 0, 1, 0, 1, 0]]).float()
    kept = head(rows.log_softmax(-1), top_k, None) > -torch.inf
    for row, found in zip(rows.tolist(), kept, strict=True):
        best = sorted(range(6), key=lambda token: (-row[token], token))[:top_k]
        assert found.nonzero().flatten().tolist() == sorted(best)


def test_top_k_of_many_tied_tokens_draws_among_the_first_k() -> None:
    drawn = sampler(range(300), seed=0, top_k=3)(torch.zeros(300, 20_000).log_softmax(-1), list(range(300)))
    assert set(drawn.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(("top_k", "top_p", "kept"), [(3, None, 3), (None, 0.5, 2), (2, 0.9, 2), (5, 0.3, 1)])
def test_only_the_head_is_drawn_and_in_proportion(top_k: int | None, top_p: float | None, kept: int) -> None:
    choose = sampler(range(2000), seed=0, top_k=top_k, top_p=top_p)
    counts = choose(one_step(DISTRIBUTION, 2000), list(range(2000))).bincount(minlength=6)
    assert counts[kept:].sum() == 0
    whole = sum(DISTRIBUTION[:kept])
    assert far_from(counts[:kept], [probability / whole for probability in DISTRIBUTION[:kept]]) < FAR


def test_the_head_is_cut_after_the_temperature_as_hugging_face_does() -> None:
    choose = sampler(range(2000), seed=0, temperature=2.0, top_p=0.6)  # without the temperature two would do
    counts = choose(one_step(DISTRIBUTION, 2000), list(range(2000))).bincount(minlength=6)
    powers = [math.sqrt(probability) for probability in DISTRIBUTION[:3]]
    assert counts[3:].sum() == 0
    assert far_from(counts[:3], [power / sum(powers) for power in powers]) < FAR


def test_a_sample_does_not_depend_on_the_batch() -> None:
    toy, numbers = Toy(3), list(range(12))
    together = decode_stepwise(toy, torch.arange(12)[:, None], VOCABULARY, [6] * 12, sampler(numbers, seed=4))
    order = [7, 2, 11, 5]
    some = decode_stepwise(toy, torch.tensor(order)[:, None], VOCABULARY, [6] * 4, sampler(order, seed=4))
    for number, (known,) in zip(order, some, strict=True):
        assert known.tokens == together[number][0].tokens
        assert known.log_probability == pytest.approx(together[number][0].log_probability, abs=1e-5)


def samples(seed: int) -> list[list[int]]:
    toy, count = Toy(5), 20
    source = torch.full((count, 1), 9)
    found = decode_stepwise(toy, source, VOCABULARY, [6] * count, sampler(range(count), seed=seed))
    return [known.tokens for (known,) in found]


def test_the_same_seed_draws_the_same_and_another_seed_draws_another() -> None:
    assert samples(0) == samples(0)
    assert samples(0) != samples(1)
    assert samples(1) != samples(2)


def test_sentences_with_the_same_source_draw_for_themselves() -> None:
    assert len({tuple(tokens) for tokens in samples(0)}) > 5


def test_a_sample_reports_the_probability_the_model_gave_it() -> None:
    """Temperature and head decide what is drawn; they do not change how probable it was."""
    toy = Toy(6)
    choose = sampler(range(8), seed=0, temperature=3.0, top_k=4)
    found = decode_stepwise(toy, torch.arange(8)[:, None], VOCABULARY, [5] * 8, choose)
    for number, (known,) in enumerate(found):
        history, total, told = number * 17 % STATES, 0.0, START
        for token in [*known.tokens, *[END] * known.finished]:
            history = (history * 37 + told + 11) % STATES
            total += toy.logits[history].double().log_softmax(-1)[token].item()
            told = token
        assert known.log_probability == pytest.approx(total, abs=1e-5)
        assert known.score == pytest.approx(total / (len(known.tokens) + known.finished), abs=1e-5)


# The head of a distribution


def head_spelled_out(log_p: list[float], top_k: int | None, top_p: float | None) -> set[int]:
    ranked = sorted(range(len(log_p)), key=lambda token: -log_p[token])
    if top_k is not None:
        ranked = ranked[:top_k]
    if top_p is not None:
        whole = sum(math.exp(log_p[token]) for token in ranked)
        kept, held = [], 0.0
        for token in ranked:
            if held >= top_p:
                break
            kept.append(token)
            held += math.exp(log_p[token]) / whole
        ranked = kept
    return set(ranked)


@given(
    seed=st.integers(0, 10_000),
    top_k=st.none() | st.integers(1, 12),
    top_p=st.none() | st.floats(0.05, 0.999),
    spread=st.sampled_from([0.5, 1.0, 3.0]),
)
@settings(max_examples=80, deadline=None)
def test_the_head_is_what_a_loop_keeps(seed: int, top_k: int | None, top_p: float | None, spread: float) -> None:
    log_p = (spread * torch.randn(3, 9, generator=torch.Generator().manual_seed(seed))).log_softmax(-1)
    kept = head(log_p, top_k, top_p)
    for row, before in zip(kept, log_p, strict=True):
        tokens = {token for token in range(9) if row[token] > -math.inf}
        assert tokens == head_spelled_out(before.double().tolist(), top_k, top_p)
        assert all(row[token] == before[token] for token in tokens)


def test_the_best_token_always_stays() -> None:
    log_p = one_step([0.9, 0.05, 0.05])
    assert (head(log_p, None, 1e-6) > -math.inf).tolist() == [[True, False, False]]
    assert (head(log_p, 1, None) > -math.inf).tolist() == [[True, False, False]]


def test_a_head_of_everything_changes_nothing() -> None:
    log_p = one_step(DISTRIBUTION)
    for top_k, top_p in ((None, None), (6, None), (99, 1.0), (None, 1.0)):
        assert torch.equal(head(log_p, top_k, top_p), log_p)


# Moving a state's rows


@dataclass(frozen=True)
class Part:
    tensor: Tensor
    inner: Any


def test_rows_are_taken_through_every_kind_of_nest() -> None:
    first, second = torch.arange(6).view(3, 2), torch.arange(3)
    state = Part(first, (None, [second, Part(second, None)], ()))
    rows = torch.tensor([2, 0, 0, 1])
    taken = take_rows(state, rows)
    assert isinstance(taken, Part)
    assert taken.tensor.tolist() == [[4, 5], [0, 1], [0, 1], [2, 3]]
    nothing, listed, empty = taken.inner
    assert nothing is None
    assert empty == ()
    assert isinstance(listed, list)
    assert listed[0].tolist() == [2, 0, 0, 1]
    assert isinstance(listed[1], Part)
    assert listed[1].tensor.tolist() == [2, 0, 0, 1]
    assert listed[1].inner is None


def test_the_state_that_was_given_stays_as_it_was() -> None:
    state = [torch.arange(3)]
    take_rows(state, torch.tensor([2]))
    assert state[0].tolist() == [0, 1, 2]


def test_no_rows_may_be_taken() -> None:
    assert take_rows((torch.ones(3, 2),), torch.empty(0, dtype=torch.long))[0].shape == (0, 2)


class LstmState(NamedTuple):
    hidden: Tensor
    cell: Tensor


def test_a_named_tuple_is_a_tuple() -> None:
    taken = take_rows(LstmState(torch.arange(3), torch.arange(3) * 10), torch.tensor([2, 1]))
    assert isinstance(taken, LstmState)
    assert taken.hidden.tolist() == [2, 1]
    assert taken.cell.tolist() == [20, 10]


@pytest.mark.parametrize(("state", "name"), [(3, "int"), ({"keys": torch.ones(2)}, "dict"), (Part, "type")])
def test_a_state_of_anything_else_is_refused_by_name(state: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"may not hold a {name}"):
        take_rows([torch.ones(2), state], torch.tensor([0]))
