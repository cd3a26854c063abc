"""Bandits: fair, repeatable, the same luck for whoever plays."""

import numpy as np
import pytest

from regard.data.bandits import draw_bandits, follow, held_out
from regard.data.batching import Place
from regard.errors import UsageError


def test_an_arm_pays_as_often_as_its_chance_says() -> None:
    bandits = draw_bandits((0, 0), 50, 3, 2000)
    np.testing.assert_allclose(bandits.paid.mean(1), bandits.chances, atol=0.05)


def test_a_batch_depends_on_seed_and_number_alone() -> None:
    batches = follow(4, 3, 5, seed=1, place=Place())
    first, second = next(batches), next(batches)
    again, after = next(follow(4, 3, 5, seed=1, place=first[1]))
    assert (again.luck == second[0].luck).all()
    assert (again.luck != first[0].luck).any()
    assert after == second[1] == Place(0, 2)


def test_held_out_bandits_are_always_the_same_and_differ_by_split() -> None:
    assert (held_out("test", 5, 2, 3).chances == held_out("test", 5, 2, 3).chances).all()
    assert (held_out("test", 5, 2, 3).chances != held_out("valid", 5, 2, 3).chances).all()
    with pytest.raises(UsageError, match="no split called 'train'"):
        held_out("train", 5, 2, 3)
