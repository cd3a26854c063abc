"""Batches by token budget: every item once, within the budget, and resumable from anywhere."""

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import Place, TokenBatches, fill, in_order_of_length

a_length = st.integers(1, 30)
some_lengths = st.lists(st.tuples(a_length, a_length), min_size=1, max_size=60).map(lambda rows: np.array(rows))
a_budget = st.integers(1, 100)


def realistic_lengths(count: int, seed: int = 0) -> np.ndarray:
    """Sentence pairs like those of Multi30k: about twelve words, a long tail, sides that go together."""
    draw = np.random.default_rng(seed)
    source = np.clip(draw.lognormal(2.5, 0.4, count), 2, 60)
    target = np.clip(source * draw.lognormal(0.05, 0.15, count), 2, 60)
    return np.stack([source, target], axis=1).astype(np.int64)


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(some_lengths, a_budget, st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_every_item_is_there_exactly_once_an_epoch(lengths: np.ndarray, budget: int, seed: int, epoch: int) -> None:
    for given_lengths in (lengths, lengths[:, 0]):
        batches = TokenBatches(given_lengths, budget, seed).epoch(epoch)
        assert sorted(item for batch in batches for item in batch.tolist()) == list(range(len(lengths)))
        assert all(len(batch) for batch in batches)


@given(some_lengths, a_budget, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_padded_batch_keeps_to_the_budget_unless_it_is_one_long_item(
    lengths: np.ndarray, budget: int, seed: int
) -> None:
    for batch in TokenBatches(lengths, budget, seed).epoch(0):
        assert len(batch) * lengths[batch].max() <= budget or len(batch) == 1


def test_the_longer_side_counts() -> None:
    lengths = np.array([[1, 10], [10, 1], [1, 1], [1, 1]])
    for seed in range(5):
        batches = as_lists(TokenBatches(lengths, 10, seed).epoch(0))
        assert [0] in batches
        assert [1] in batches


def test_a_batch_takes_all_that_the_budget_holds() -> None:
    assert sorted(map(len, TokenBatches(np.full(12, 5), 20, 0).epoch(0))) == [4, 4, 4]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = realistic_lengths(300)
    plan = as_lists(TokenBatches(lengths, 200, seed=3).epoch(2))
    busy = TokenBatches(lengths, 200, seed=3)
    for epoch in (0, 1, 5):
        busy.epoch(epoch)
    np.random.default_rng().random(3)
    assert as_lists(busy.epoch(2)) == plan
    assert as_lists(TokenBatches(lengths, 200, seed=3).epoch(3)) != plan
    assert as_lists(TokenBatches(lengths, 200, seed=4).epoch(2)) != plan


def test_epochs_mix_the_items_of_batches_anew() -> None:
    """Not only the order of the batches changes, but also who is together."""
    batches = TokenBatches(realistic_lengths(3000), 100, seed=0)
    first, second = ({frozenset(batch.tolist()) for batch in batches.epoch(epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 4


def test_batches_do_not_come_in_order_of_length() -> None:
    lengths = realistic_lengths(1000)
    longest = [lengths[batch].max() for batch in TokenBatches(lengths, 200, seed=0).epoch(0)]
    steps = np.sign(np.diff(longest))
    assert (steps > 0).any()
    assert (steps < 0).any()


@given(some_lengths, a_budget, st.integers(0, 3), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_following_from_any_place_continues_the_same_sequence(
    lengths: np.ndarray, budget: int, seed: int, stopped: int
) -> None:
    batches = TokenBatches(lengths, budget, seed)
    whole = [(batch.tolist(), after) for batch, after in islice(batches.follow(Place()), stopped + 10)]
    place = whole[stopped - 1][1] if stopped else Place()
    resumed = TokenBatches(lengths, budget, seed).follow(place)
    assert [(batch.tolist(), after) for batch, after in islice(resumed, 10)] == whole[stopped:]


def test_following_goes_through_the_epochs_one_after_the_other() -> None:
    batches = TokenBatches(realistic_lengths(50), 100, seed=1)
    epochs = [as_lists(batches.epoch(number)) for number in range(3)]
    count = sum(map(len, epochs))
    followed = list(islice(batches.follow(Place()), count))
    assert [batch.tolist() for batch, _ in followed] == list(chain(*epochs))
    assert followed[len(epochs[0]) - 1][1] == Place(1, 0)
    assert followed[-1][1] == Place(3, 0)
    assert followed[0][1] == Place(0, 1)


@given(st.lists(st.integers(0, 30), max_size=50), a_budget)
@settings(max_examples=60, deadline=None)
def test_batches_in_order_of_length_hold_every_item_once_longest_first(lengths: list[int], budget: int) -> None:
    batches = in_order_of_length(lengths, budget)
    items = [item for batch in batches for item in batch.tolist()]
    assert sorted(items) == list(range(len(lengths)))
    assert [lengths[item] for item in items] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[item] for item in batch) <= budget


def test_no_items_make_no_batches() -> None:
    assert in_order_of_length([], 10) == []
    assert fill(np.array([], dtype=np.int64), np.array([], dtype=np.int64), 10) == []


def test_filling_keeps_the_order_and_cuts_late() -> None:
    lengths = np.array([2, 3, 1, 1, 9, 1])
    assert as_lists(fill(np.arange(6) + 10, lengths, 6)) == [[10, 11], [12, 13], [14], [15]]


@pytest.mark.parametrize("budget", [1024, 4096])
def test_little_of_a_batch_is_padding(budget: int) -> None:
    lengths = realistic_lengths(10_000)
    batches = TokenBatches(lengths, budget, seed=0).epoch(0)
    padded = sum(len(batch) * lengths[batch].max(axis=0).sum() for batch in batches)
    assert lengths.sum() / padded > 0.8
    room = sum(len(batch) * lengths[batch].max() for batch in batches) / (budget * len(batches))
    assert room > 0.8  # and the budget is used
