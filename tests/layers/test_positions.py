"""Positions: the paper's formula as a loop, the lectures' numbers, and what happens beyond the table."""

import math

import pytest
import torch

from regard.errors import RegardError, UsageError
from regard.layers.positions import (
    HalvedSinusoidalPositions,
    LearnedPositions,
    SinusoidalPositions,
    named_positions,
    sines_then_cosines,
    sinusoids,
)


def by_hand(position: int, size: int) -> list[float]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))."""
    row = []
    for dimension in range(size):
        pair = dimension // 2
        angle = position / 10000 ** (2 * pair / size)
        row.append(math.sin(angle) if dimension % 2 == 0 else math.cos(angle))
    return row


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 33])
def test_every_row_is_the_papers_formula_for_even_and_odd_sizes(size: int) -> None:
    expected = torch.tensor([by_hand(position, size) for position in range(50)])
    torch.testing.assert_close(sinusoids(50, size), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [4, 5, 512])
def test_the_first_place_is_zeros_and_ones(size: int) -> None:
    expected = torch.tensor([0.0, 1.0]).repeat(size)[:size]
    assert torch.equal(sinusoids(1, size)[0], expected)


def test_the_second_place_of_512_has_the_numbers_of_the_lecture() -> None:
    shown = torch.tensor([0.8414, 0.5403, 0.8218])  # the slide cuts its digits off, it does not round
    torch.testing.assert_close(sinusoids(2, 512)[1, :3], shown, atol=1e-4, rtol=0)


def test_size_four_is_the_lectures_example() -> None:
    table = sinusoids(4, 4)
    for position in range(4):
        expected = torch.tensor(
            [math.sin(position), math.cos(position), math.sin(position / 100), math.cos(position / 100)]
        )
        torch.testing.assert_close(table[position], expected, atol=1e-6, rtol=0)


def test_late_places_keep_their_precision() -> None:
    # In single precision the angle itself would be wrong by about 1e-3 here.
    torch.testing.assert_close(sinusoids(20_001, 4)[20_000], torch.tensor(by_hand(20_000, 4)), atol=1e-6, rtol=0)


def test_sinusoidal_positions_go_beyond_their_table_without_a_seam() -> None:
    short, long = SinusoidalPositions(3, 8), SinusoidalPositions(12, 8)
    places = torch.tensor([[0, 1, 2, 3], [8, 9, 10, 11]])
    assert torch.equal(short(places), long(places))
    assert len(short.table) == 3


@pytest.mark.parametrize("size", [1, 4, 7, 16])
def test_marians_rows_hold_first_all_sines_and_then_all_cosines(size: int) -> None:
    for position, row in enumerate(sines_then_cosines(20, size).tolist()):
        known = by_hand(position, size)
        assert row == pytest.approx(known[0::2] + known[1::2], abs=1e-6)


def test_marians_positions_go_beyond_their_table_in_the_same_order() -> None:
    short, long = HalvedSinusoidalPositions(3, 8), HalvedSinusoidalPositions(12, 8)
    places = torch.tensor([[0, 5, 2, 11]])
    assert torch.equal(short(places), long(places))


def test_a_model_sketched_on_the_meta_device_has_its_sinusoids_all_the_same() -> None:
    with torch.device("meta"):
        positions = SinusoidalPositions(3, 8)
    assert torch.equal(positions.table, sinusoids(3, 8))


def test_sinusoidal_positions_are_neither_learnt_nor_saved() -> None:
    positions = SinusoidalPositions(3, 8)
    assert list(positions.parameters()) == []
    assert list(positions.state_dict()) == []


def test_learned_positions_are_rows_of_their_table() -> None:
    positions = LearnedPositions(5, 4)
    places = torch.tensor([[4, 0], [1, 1]])
    told = positions(places)
    for row in range(2):
        for column in range(2):
            assert torch.equal(told[row, column], positions.table[places[row, column]])


def test_learned_positions_are_learnt_where_they_were_used() -> None:
    positions = LearnedPositions(5, 4)
    positions(torch.tensor([[0, 2]])).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad.abs().sum(1).gt(0).tolist() == [True, False, True, False, False]


def test_beyond_the_learned_positions_is_an_error_that_says_how_many_there_are() -> None:
    with pytest.raises(RegardError, match=r"6 tokens.*5 learnt positions.*max_length") as caught:
        LearnedPositions(5, 4)(torch.tensor([[5]]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_no_tokens_have_no_positions(kind: str) -> None:
    told = named_positions(kind, 5, 4)(torch.empty(2, 0, dtype=torch.long))
    assert told.shape == (2, 0, 4)


def test_positions_come_by_name() -> None:
    assert isinstance(named_positions("sinusoidal", 5, 4), SinusoidalPositions)
    assert isinstance(named_positions("learned", 5, 4), LearnedPositions)
    assert isinstance(named_positions("sinusoidal_halves", 5, 4), HalvedSinusoidalPositions)


def test_unknown_positions_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"rotary.*sinusoidal, learned"):
        named_positions("rotary", 5, 4)
