"""Episodes: balanced, of classes that differ, the same for the same number."""

import numpy as np
import pytest
import torch

from regard.data.batching import Place
from regard.data.episodes_fewshot import EpisodeDraws, Episodes, Shape, turned
from regard.errors import UsageError

CLASSES = np.repeat(np.arange(6), 5)[np.random.default_rng(0).permutation(30)]  # 6 classes, 5 pictures each, mixed
SHAPE = Shape(ways=4, shots=2, queries=2)


def drawn(rotations: bool = False, rows: int = 40) -> Episodes:
    return EpisodeDraws(CLASSES, SHAPE, rotations).draw((7,), 0, rows)


def test_every_label_has_as_many_examples_and_queries() -> None:
    episodes = drawn()
    assert (np.sort(episodes.labels, 1) == np.repeat(np.arange(4), 2)).all()
    assert (np.sort(episodes.answers, 1) == np.repeat(np.arange(4), 2)).all()


def test_a_label_is_one_class_and_no_picture_comes_twice() -> None:
    episodes = drawn()
    for row in range(len(episodes)):
        meaning = {}
        for item, label in zip(episodes.examples[row], episodes.labels[row], strict=True):
            assert meaning.setdefault(label, CLASSES[item]) == CLASSES[item]
        assert len(set(meaning.values())) == 4
        for item, label in zip(episodes.queries[row], episodes.answers[row], strict=True):
            assert meaning[label] == CLASSES[item]
        assert len({*episodes.examples[row], *episodes.queries[row]}) == SHAPE.pictures


def test_labels_and_order_are_drawn_anew() -> None:
    episodes = drawn(rows=200)
    assert len({tuple(row) for row in episodes.labels}) > 100
    first_class = CLASSES[episodes.queries[:, 0]]  # whoever has the label 0
    assert (np.bincount(first_class, minlength=6) > 15).all()


def test_an_episode_depends_on_its_number_alone() -> None:
    draws = EpisodeDraws(CLASSES, SHAPE, rotations=True)
    together, apart = draws.draw((7,), 0, 9), draws.draw((7,), 6, 3)
    assert (together.examples[6:] == apart.examples).all()
    assert (together.query_turns[6:] == apart.query_turns).all()
    assert (draws.draw((8,), 6, 3).examples != apart.examples).any()


def test_a_run_goes_on_where_it_stopped() -> None:
    draws = EpisodeDraws(CLASSES, SHAPE)
    whole = draws.follow(3, 5, Place())
    parts = [next(whole) for _ in range(3)]
    again, after = next(draws.follow(3, 5, parts[1][1]))
    assert (again.examples == parts[2][0].examples).all()
    assert after == parts[2][1]


def test_a_turned_class_is_another_class() -> None:
    draws = EpisodeDraws(np.repeat(np.arange(2), 4), Shape(6, 1), rotations=True)  # two classes, eight with rotations
    episodes = draws.draw((0,), 0, 30)
    for row in range(30):
        both = {
            (item // 4, turn) for item, turn in zip(episodes.examples[row], episodes.example_turns[row], strict=True)
        }
        assert len(both) == 6
    for label in range(6):
        shown, asked = episodes.labels == label, episodes.answers == label
        assert (episodes.example_turns[shown] == episodes.query_turns[asked]).all()


def test_classes_with_too_few_pictures_are_left_out() -> None:
    classes = np.array([0, 0, 0, 1, 2, 2, 2])
    episodes = EpisodeDraws(classes, Shape(2, 2)).draw((0,), 0, 5)
    assert 3 not in episodes.examples
    with pytest.raises(UsageError, match="2 of 3 classes have so many pictures"):
        EpisodeDraws(classes, Shape(3, 2))


def test_pictures_are_turned_each_by_its_own_quarters() -> None:
    pixels = torch.arange(5 * 9.0).view(5, 1, 3, 3)
    said = turned(pixels, np.array([0, 1, 2, 3, 1]))
    for number, quarters in enumerate([0, 1, 2, 3, 1]):
        assert torch.equal(said[number], pixels[number].rot90(quarters, (1, 2)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 0, 1), (2, 1, 0)])
def test_an_episode_of_nothing_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="an episode cannot have"):
        Shape(*shape)
