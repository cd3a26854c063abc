"""Beam search against searches that are spelled out, on a toy language of a handful of words."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.stepwise import decode_stepwise, greedy

START, END = 0, 1
VOCABULARY = Vocabulary(START, END, never=(START,))
HISTORIES = 9973


@dataclass(frozen=True)
class Heard:
    history: Tensor


class Toy:
    """A language model whose next token depends on the source and on every token before, through one number."""

    def __init__(self, seed: int, words: int = 5):
        draw = torch.Generator().manual_seed(seed)
        self.logits = 1.5 * torch.randn(HISTORIES, words, generator=draw)
        self.rows: list[int] = []  # of every step: how much the search asked for

    def start(self, source: Tensor) -> Heard:
        history = torch.ones(len(source), dtype=torch.long)
        for token in source.T:
            history = (history * 31 + token) % HISTORIES
        return Heard(history)

    def step(self, tokens: Tensor, state: Heard) -> tuple[Tensor, Heard]:
        self.rows.append(len(tokens))
        history = (state.history * 37 + tokens + 11) % HISTORIES
        return self.logits[history], Heard(history)

    def next(self, source: list[int], prefix: tuple[int, ...]) -> list[float]:
        """log p of each next token, one at a time, in double precision."""
        state = self.start(torch.tensor([source]))
        for token in (START, *prefix):
            history = (state.history * 37 + token + 11) % HISTORIES
            state = Heard(history)
        return self.logits[state.history][0].double().log_softmax(-1).tolist()


def every_hypothesis(toy: Toy, source: list[int], limit: int, penalty: float) -> list[Hypothesis]:
    """All that can be said within the limit, the best first."""
    found = []

    def go_on(prefix: tuple[int, ...], log_p: float) -> None:
        length = len(prefix) + 1
        for token, step_log_p in enumerate(toy.next(source, prefix)):
            total = log_p + step_log_p
            if token == START:
                continue
            if token == END:
                found.append(Hypothesis(list(prefix), total, total / length**penalty, True))
            elif length == limit:
                found.append(Hypothesis([*prefix, token], total, total / length**penalty, False))
            else:
                go_on((*prefix, token), total)

    go_on((), 0.0)
    return sorted(found, key=lambda known: -known.score)


def beam_by_beam(toy: Toy, source: list[int], limit: int, beams: int, penalty: float) -> list[Hypothesis]:
    """The search as its description says it, with lists in place of tensors."""
    finished: list[Hypothesis] = []
    going_on: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for length in range(1, limit + 1):
        candidates = [
            (log_p + step, (*prefix, token))
            for log_p, prefix in going_on
            for token, step in enumerate(toy.next(source, prefix))
            if token != START
        ]
        candidates.sort(key=lambda known: -known[0])
        for log_p, tokens in candidates[:beams]:
            if tokens[-1] == END:
                finished.append(Hypothesis(list(tokens[:-1]), log_p, log_p / length**penalty, True))
        going_on = [known for known in candidates[: 2 * beams] if known[1][-1] != END][:beams]
        if length == limit:
            finished += [Hypothesis(list(said), log_p, log_p / length**penalty, False) for log_p, said in going_on]
        finished = sorted(finished, key=lambda known: -known.score)[:beams]
        if not going_on or (len(finished) == beams and going_on[0][0] / length**penalty <= finished[-1].score):
            break
    return finished


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(known.tokens, known.finished) for known in found] == [(known.tokens, known.finished) for known in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_everything_finds_what_exhaustive_search_finds(seed: int, penalty: float) -> None:
    toy = Toy(seed)
    expected = every_hypothesis(toy, [2, 4], 4, penalty)
    assert len(expected) == 1 + 3 + 9 + 27 + 81
    found = beam_search(toy, torch.tensor([[2, 4]]), VOCABULARY, [4], beams=128, length_penalty=penalty)
    assert_same(found[0], expected)


def test_a_longer_exhaustive_search_agrees_too() -> None:
    toy = Toy(7, words=4)
    found = beam_search(toy, torch.tensor([[3]]), VOCABULARY, [5], beams=64)
    assert_same(found[0], every_hypothesis(toy, [3], 5, 1.0))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("beams", [1, 2, 3, 5])
def test_narrow_beams_follow_the_search_spelled_out(beams: int, penalty: float) -> None:
    toy = Toy(beams)
    sources = [[number, 3] for number in range(6)]
    found = beam_search(toy, torch.tensor(sources), VOCABULARY, [6] * 6, beams=beams, length_penalty=penalty)
    for source, hypotheses in zip(sources, found, strict=True):
        assert_same(hypotheses, beam_by_beam(toy, source, 6, beams, penalty))


@pytest.mark.parametrize("beams", [1, 2, 4, 8])
def test_a_narrow_beam_never_beats_the_exhaustive_best(beams: int) -> None:
    toy = Toy(5)
    sources = [[number] for number in range(8)]
    found = beam_search(toy, torch.tensor(sources), VOCABULARY, [4] * 8, beams=beams)
    best = [every_hypothesis(toy, source, 4, 1.0)[0].score for source in sources]
    for hypotheses, score in zip(found, best, strict=True):
        assert hypotheses[0].score <= score + 1e-5


def test_a_narrow_beam_can_miss_the_best() -> None:
    """Otherwise the tests above would not tell a narrow beam from an exhaustive one."""
    toy = Toy(5)
    sources = [[number] for number in range(8)]
    found = beam_search(toy, torch.tensor(sources), VOCABULARY, [4] * 8, beams=1)
    best = [every_hypothesis(toy, source, 4, 1.0)[0].score for source in sources]
    assert any(hypotheses[0].score < score - 1e-3 for hypotheses, score in zip(found, best, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_one_beam_is_greedy(seed: int) -> None:
    toy = Toy(seed)
    source, limits = torch.arange(10)[:, None], [7] * 10
    by_beam = beam_search(toy, source, VOCABULARY, limits, beams=1)
    by_step = decode_stepwise(toy, source, VOCABULARY, limits, greedy)
    for ours, theirs in zip(by_beam, by_step, strict=True):
        assert_same(ours, theirs)


def test_the_n_best_are_sorted_and_distinct() -> None:
    source = torch.arange(10)[:, None]
    for hypotheses in beam_search(Toy(2), source, VOCABULARY, [8] * 10, beams=6, length_penalty=0.8):
        assert len(hypotheses) == 6
        scores = [known.score for known in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({(tuple(known.tokens), known.finished) for known in hypotheses}) == 6


def test_the_score_is_the_log_probability_over_the_length_with_its_end() -> None:
    toy = Toy(3)
    for hypotheses in beam_search(toy, torch.arange(4)[:, None], VOCABULARY, [5] * 4, beams=4, length_penalty=0.7):
        for known in hypotheses:
            length = len(known.tokens) + known.finished
            assert known.score == pytest.approx(known.log_probability / length**0.7)


def test_a_sentence_does_not_depend_on_its_batch() -> None:
    toy = Toy(4)
    sources, limits = [[number, 2] for number in range(7)], [3, 8, 1, 5, 8, 2, 6]
    together = beam_search(toy, torch.tensor(sources), VOCABULARY, limits, beams=3)
    for source, limit, hypotheses in zip(sources, limits, together, strict=True):
        alone = beam_search(toy, torch.tensor([source]), VOCABULARY, [limit], beams=3)
        assert_same(hypotheses, alone[0])
    order = [4, 0, 6, 2, 1, 5, 3]
    shuffled = beam_search(
        toy, torch.tensor([sources[i] for i in order]), VOCABULARY, [limits[i] for i in order], beams=3
    )
    for index, hypotheses in zip(order, shuffled, strict=True):
        assert_same(hypotheses, together[index])


def test_each_sentence_has_its_own_limit() -> None:
    toy, limits = Toy(6), [1, 2, 3, 4]
    found = beam_search(toy, torch.tensor([[2], [3], [4], [2]]), VOCABULARY, limits, beams=128)
    for source, limit, hypotheses in zip([[2], [3], [4], [2]], limits, found, strict=True):
        assert_same(hypotheses, every_hypothesis(toy, source, limit, 1.0))


def test_finished_sentences_leave_the_batch() -> None:
    toy = Toy(1)
    beam_search(toy, torch.arange(5)[:, None], VOCABULARY, [1, 1, 1, 2, 2], beams=2)
    assert toy.rows == [5, 4]  # one beam each at first, then two of the two that are left


def test_tokens_that_may_never_be_said_are_not() -> None:
    toy = Toy(8)
    vocabulary = Vocabulary(START, END, never=(START, 3))
    toy.logits[:, 3] += 5  # the model's favourite
    found = beam_search(toy, torch.arange(6)[:, None], vocabulary, [5] * 6, beams=4)
    said = {token for hypotheses in found for known in hypotheses for token in known.tokens}
    assert said == {2, 4}


def test_a_vocabulary_may_forbid_nothing() -> None:
    toy = Toy(8)
    toy.logits[:, START] += 5
    found = beam_search(toy, torch.tensor([[2]]), Vocabulary(START, END), [3], beams=2)
    assert found[0][0].tokens == [START] * 3


def test_what_the_limit_cut_is_marked_unfinished() -> None:
    toy = Toy(9)
    toy.logits[:, END] -= 50
    (hypotheses,) = beam_search(toy, torch.tensor([[2]]), VOCABULARY, [4], beams=3)
    assert len(hypotheses) == 3
    for known in hypotheses:
        assert not known.finished
        assert len(known.tokens) == 4
    toy.logits[:, END] += 100
    (hypotheses,) = beam_search(toy, torch.tensor([[2]]), VOCABULARY, [4], beams=1)
    assert hypotheses == [Hypothesis([], hypotheses[0].log_probability, hypotheses[0].score, True)]


def test_a_hypothesis_that_ends_at_the_limit_is_finished() -> None:
    toy = Toy(9)
    found = beam_search(toy, torch.tensor([[2]]), VOCABULARY, [2], beams=32)[0]
    assert {(len(known.tokens), known.finished) for known in found} == {(0, True), (1, True), (2, False)}


@pytest.mark.parametrize("beams", [5, 6, 11])
def test_beams_wider_than_the_vocabulary_work(beams: int) -> None:
    toy = Toy(10, words=4)
    found = beam_search(toy, torch.tensor([[2], [3]]), VOCABULARY, [4, 3], beams=beams)
    for source, limit, hypotheses in zip([[2], [3]], [4, 3], found, strict=True):
        assert_same(hypotheses, beam_by_beam(toy, source, limit, beams, 1.0))


def test_fewer_hypotheses_than_beams_are_all_there_are() -> None:
    found = beam_search(Toy(11, words=3), torch.tensor([[2]]), VOCABULARY, [3], beams=50)
    assert [len(found[0])] == [4]  # "", "a", "aa", and "aaa" cut
    assert all(math.isfinite(known.score) for known in found[0])


def test_no_sentences_give_no_hypotheses() -> None:
    assert beam_search(Toy(0), torch.empty(0, 1, dtype=torch.long), VOCABULARY, [], beams=2) == []
