"""Episodes: each algorithm's answer against plain Python, drawn from a seed and a place alone."""

from itertools import islice

import numpy as np
import pytest

from regard.data.batching import Place
from regard.data.episodes import (
    ALGORITHMS,
    Copy,
    Length,
    Lengths,
    Recall,
    RepeatCopy,
    follow,
    held_out,
    named_algorithm,
    random_bits,
)
from regard.errors import UsageError

every_algorithm = pytest.mark.parametrize("name", list(ALGORITHMS))


def bits(rows: int = 2, length: int = 3, size: int = 4) -> np.ndarray:
    return random_bits(np.random.default_rng(0), rows, length, size)


def test_copy_says_the_vectors_again_after_the_sign() -> None:
    episodes = Copy(4).of(bits())
    assert episodes.inputs.shape == (2, 7, 5)
    np.testing.assert_array_equal(episodes.inputs[:, :3, :4], np.where(bits() > 0, 1, -1))
    assert episodes.inputs[:, 3].tolist() == [[0, 0, 0, 0, 1]] * 2
    assert not episodes.inputs[:, 4:].any()
    assert episodes.asked.tolist() == [False] * 4 + [True] * 3
    np.testing.assert_array_equal(episodes.targets[:, episodes.asked], bits())
    assert not episodes.targets[:, ~episodes.asked].any()


def test_repeat_copy_says_them_so_often_and_then_that_it_is_done() -> None:
    episodes = RepeatCopy(4).of(bits(), 2)
    assert episodes.inputs.shape == (2, 3 + 1 + 6 + 1, 5)
    answer = episodes.targets[:, episodes.asked]
    np.testing.assert_array_equal(answer[:, :3, :4], bits())
    np.testing.assert_array_equal(answer[:, 3:6, :4], bits())
    assert answer[:, -1].tolist() == [[0, 0, 0, 0, 1]] * 2
    assert not answer[:, :-1, 4].any()


def test_the_number_of_repeats_has_mean_zero_and_variance_one() -> None:
    told = [RepeatCopy(4).of(bits(1), repeats).inputs[0, 3, 4] for repeats in range(1, 11)]
    assert np.mean(told) == pytest.approx(0, abs=1e-6)
    assert np.var(told) == pytest.approx(1, rel=1e-5)


def test_recall_asks_for_the_item_after_the_one_shown() -> None:
    items = bits(2, 4 * 3)
    shown = np.where(items > 0, 1, -1)
    episodes = Recall(4).of(items, np.array([0, 2]))
    assert episodes.inputs.shape == (2, 4 * 4 + 5 + 3, 6)
    for row, asked in enumerate([0, 2]):
        expected = []
        for item in range(4):
            expected += [[0, 0, 0, 0, 1, 0]]
            expected += [[*vector, 0, 0] for vector in shown[row, 3 * item : 3 * item + 3].tolist()]
        expected += [[0, 0, 0, 0, 0, 1]]
        expected += [[*vector, 0, 0] for vector in shown[row, 3 * asked : 3 * asked + 3].tolist()]
        expected += [[0, 0, 0, 0, 0, 1]] + [[0] * 6] * 3
        assert episodes.inputs[row].tolist() == expected
        assert episodes.targets[row, -3:].tolist() == items[row, 3 * asked + 3 : 3 * asked + 6].tolist()
    assert episodes.asked.tolist() == [False] * 21 + [True] * 3


@every_algorithm
@pytest.mark.parametrize("count", [2, 5])
def test_every_episode_has_as_many_steps_and_channels_as_the_algorithm_says(name: str, count: int) -> None:
    algorithm = named_algorithm(name, 3)
    episodes = algorithm.draw(np.random.default_rng(0), 4, Length(count, 2))
    steps = algorithm.steps(Length(count, 2))
    assert episodes.inputs.shape == (4, steps, algorithm.input_size)
    assert episodes.targets.shape == (4, steps, algorithm.output_size)
    assert episodes.asked.shape == (steps,)
    assert len(episodes) == 4


@every_algorithm
def test_going_on_from_any_place_gives_the_same_batches(name: str) -> None:
    def batches(place: Place, count: int) -> list:
        return list(islice(follow(named_algorithm(name, 3), Lengths(2, 6, 3), 64, 7, place), count))

    whole = batches(Place(), 5)
    again = batches(whole[2][1], 2)
    for (episodes, after), (other, other_after) in zip(whole[3:], again, strict=True):
        np.testing.assert_array_equal(episodes.inputs, other.inputs)
        np.testing.assert_array_equal(episodes.targets, other.targets)
        assert after == other_after
    assert [episodes.number for episodes, _ in whole] == [0, 1, 2, 3, 4]


def test_batches_keep_to_the_budget_and_use_every_length() -> None:
    found = list(islice(follow(Copy(2), Lengths(1, 5), 40, 0, Place()), 200))
    sizes = {episodes.inputs.shape[1]: len(episodes) for episodes, _ in found}
    assert sizes == {2 * count + 1: 40 // (2 * count + 1) for count in range(1, 6)}


def test_an_episode_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    episodes, _ = next(follow(Copy(2), Lengths(9, 9), 4, 0, Place()))
    assert episodes.inputs.shape == (1, 19, 3)


def test_seeds_and_splits_differ_and_held_out_episodes_stay_the_same() -> None:
    def first(seed: int) -> np.ndarray:
        return next(follow(Copy(8), Lengths(9, 9), 100, seed, Place()))[0].inputs

    valid, test = (held_out(Copy(8), split, 5, Length(9)).inputs for split in ("valid", "test"))
    np.testing.assert_array_equal(valid, held_out(Copy(8), "valid", 5, Length(9)).inputs)
    for one, other in ((first(0), first(1)), (valid, test), (valid, first(0)), (test, first(0))):
        assert (one != other).any()


@every_algorithm
def test_no_vector_of_bits_looks_like_the_silence_of_the_answer(name: str) -> None:
    episodes = named_algorithm(name, 1).draw(np.random.default_rng(0), 50, Length(4))
    silent = ~episodes.inputs.any(-1)
    np.testing.assert_array_equal(silent, np.broadcast_to(episodes.asked, silent.shape))


def test_half_of_the_bits_are_ones() -> None:
    drawn = random_bits(np.random.default_rng(0), 100, 100, 8)
    assert set(np.unique(drawn)) == {0, 1}
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("count", "repeats"), [(0, 1), (-3, 1), (2, 0)])
def test_a_length_of_nothing_is_refused(count: int, repeats: int) -> None:
    with pytest.raises(UsageError, match="ask for at least 1"):
        Length(count, repeats)


def test_recall_of_a_single_item_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 2 items"):
        Recall(4).draw(np.random.default_rng(0), 1, Length(1))


def test_an_unknown_algorithm_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="called 'sort': choose one of copy, repeat-copy, recall"):
        named_algorithm("sort", 8)


def test_a_split_nobody_draws_is_refused() -> None:
    with pytest.raises(UsageError, match="no split called 'train'"):
        held_out(Copy(2), "train", 1, Length(1))
