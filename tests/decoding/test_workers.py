"""Processes side by side: they find what one finds, whatever happens to them, and only where they are faster."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.decoding import workers as module
from regard.decoding.generate import Found, generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.decoding.workers import Workers, free_memory, room_for
from regard.errors import RegardError, UsageError

PAD, START, END, WORDS = 0, 1, 2, 14
VOCABULARY = Vocabulary(START, END, never=(PAD, START))
SETTINGS = {
    "greedy": Decoding(num_beams=1, max_new_tokens=6, batch_tokens=12),
    "beam": Decoding(num_beams=3, max_new_tokens=6, batch_tokens=36),
    "sampling": Decoding(num_beams=1, do_sample=True, temperature=1.3, max_new_tokens=6, batch_tokens=12),
}
SOURCES = [[3 + (place * step) % 11 for place in range(1 + step % 7)] + [END] for step in range(40)]


class Talker(nn.Module):
    """Says what its source and its last word suggest to it. It may be slow, refuse a word, or die of one."""

    def __init__(self, seconds: float = 0.0, refused: int | None = None, deadly: Path | None = None):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WORDS)
        self.seconds, self.refused, self.deadly = seconds, refused, deadly

    def start(self, source: Tensor) -> Tensor:
        time.sleep(self.seconds)
        if self.refused is not None and bool((source == self.refused).any()):
            raise RegardError("a word that nobody knows")
        if self.deadly is not None and not self.deadly.exists():
            self.deadly.touch()
            os._exit(1)
        return self.words(source).masked_fill((source == PAD)[..., None], 0).sum(1)

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return state + 3 * self.words(tokens), state


def stillborn() -> nn.Module:
    os._exit(1)


def found(workers: Workers | None, settings: Decoding = SETTINGS["beam"], here: nn.Module | None = None) -> Found:
    model = Talker() if here is None else here
    return generate(model, SOURCES, VOCABULARY, settings, pad=PAD, workers=workers)


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with Workers(Talker, 2) as workers:
        yield workers


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_processes_find_what_one_finds(two: Workers, settings: Decoding) -> None:
    assert found(two, settings, here=Talker(refused=END)) == found(None, settings)
    assert two.lost == 0


def test_every_sentence_is_told_of(two: Workers) -> None:
    told: list[int] = []
    settings = SETTINGS["beam"]
    generate(Talker(), SOURCES, VOCABULARY, settings, pad=PAD, workers=two, finished=told.append)
    assert sum(told) == len(SOURCES)
    assert len(told) > 2


def test_a_small_input_is_divided_among_all() -> None:
    workers = Workers(Talker, 4)
    assert workers.share(1000, 40) == 10
    assert workers.share(5, 40) == 5
    assert Workers(Talker, 1).share(1000, 40) == 1000


def test_somebody_who_may_stop_a_sentence_is_asked_here() -> None:
    with Workers(stillborn, 2) as workers:
        generate(
            Talker(),
            SOURCES,
            VOCABULARY,
            SETTINGS["greedy"],
            pad=PAD,
            workers=workers,
            stopped=lambda item, tokens: len(tokens) == 2,
        )
    assert workers.lost == 0


def test_the_batch_of_a_process_that_dies_is_done_by_another(tmp_path: Path) -> None:
    with Workers(partial(Talker, deadly=tmp_path / "dead"), 2) as workers:
        assert found(workers) == found(None)
        assert workers.lost >= 1  # both may have looked before either wrote
        assert found(workers) == found(None)


def test_where_no_process_lives_this_one_does_everything() -> None:
    with Workers(stillborn, 2) as workers:
        assert found(workers) == found(None)
        assert found(workers) == found(None)
    assert workers.lost == 2  # and none was started again


def test_what_a_process_refuses_is_refused_here_and_the_others_answers_are_forgotten() -> None:
    with Workers(partial(Talker, refused=9), 2) as workers:
        with pytest.raises(RegardError, match="a word that nobody knows"):
            found(workers)
        fewer = [[word for word in source if word != 9] for source in SOURCES]
        kept = generate(Talker(), fewer, VOCABULARY, SETTINGS["beam"], pad=PAD, workers=workers)
    assert kept == generate(Talker(), fewer, VOCABULARY, SETTINGS["beam"], pad=PAD)


def test_fewer_than_one_is_refused() -> None:
    with pytest.raises(UsageError, match="0 workers"):
        Workers(Talker, 0)


def test_the_end_of_the_block_is_the_end_of_the_processes() -> None:
    with Workers(Talker, 2) as workers:
        found(workers)
        processes = [each.process for each in workers._processes]
        assert [process.is_alive() for process in processes] == [True, True]
    assert [process.is_alive() for process in processes] == [False, False]


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Workers that may choose, on a machine with two threads, where any work is worth a trial."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(module, "available_cpus", lambda: 2)
    monkeypatch.setattr(module, "WORTH", 0.0)
    return Workers


def test_processes_go_on_where_they_are_faster(undecided: Any) -> None:
    with undecided(Talker) as workers:
        assert found(workers, here=Talker(seconds=0.1)) == found(None)
        assert (workers.undecided, workers.count, len(workers._processes)) == (False, 2, 2)


def test_processes_end_where_they_are_slower(undecided: Any) -> None:
    with undecided(partial(Talker, seconds=0.3)) as workers:
        assert found(workers) == found(None)
        assert (workers.undecided, workers.count, len(workers._processes)) == (False, 1, 0)
        assert found(workers) == found(None)
        assert not workers._processes


def test_no_process_is_started_for_a_short_input(undecided: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH", 1000.0)
    with undecided(stillborn) as workers:
        assert found(workers) == found(None)
        assert (workers.undecided, workers.lost) == (True, 0)


def test_no_process_is_started_without_memory_for_it(undecided: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_memory", lambda: 3 * module.BESIDE)
    assert room_for(Talker()) == 1
    with undecided(stillborn) as workers:
        assert found(workers) == found(None)
        assert (workers.undecided, workers.count, workers.lost) == (False, 1, 0)


@pytest.mark.parametrize("factor", [0, 3])
def test_little_memory_means_one_process_and_the_next_input_is_decoded_too(
    undecided: Any, monkeypatch: pytest.MonkeyPatch, factor: int
) -> None:
    """With room for none, the count was 0, and the next input was divided by it."""
    monkeypatch.setattr(module, "free_memory", lambda: factor * module.BESIDE)
    with undecided(stillborn) as workers:
        assert [found(workers), found(workers)] == [found(None), found(None)]
        assert (workers.undecided, workers.count, workers.lost) == (False, 1, 0)


def test_memory_is_counted() -> None:
    assert 1 << 20 < free_memory() < 1 << 50
