"""Dropout by 16-bit words: the right frequency, the right scale, the right gradient."""

import math

import pytest
import torch

from regard.errors import UsageError
from regard.layers.dropout import STEPS, Dropout, keep_mask

COUNT = 200_000


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_elements_are_dropped_with_their_probability(p: float) -> None:
    torch.manual_seed(0)
    dropped = (Dropout(p)(torch.ones(COUNT)) == 0).double().mean().item()
    assert abs(dropped - p) < 5 * math.sqrt(p * (1 - p) / COUNT) + 1 / STEPS


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_mean_is_kept(p: float) -> None:
    torch.manual_seed(1)
    mean = Dropout(p)(torch.ones(COUNT)).double().mean().item()
    assert abs(mean - 1) < 5 * math.sqrt(p / (1 - p) / COUNT)


def test_survivors_are_scaled_by_the_probability_really_used() -> None:
    torch.manual_seed(2)
    p = 0.3
    survivors = sorted(set(Dropout(p)(torch.ones(1000)).tolist()))
    used = round(p * STEPS) / STEPS
    assert survivors == pytest.approx([0.0, 1 / (1 - used)], rel=1e-6)


@pytest.mark.parametrize("place", range(4))
def test_each_of_the_four_elements_of_a_word_is_dropped_alike_and_alone(place: int) -> None:
    torch.manual_seed(3)
    kept = keep_mask(torch.Size([COUNT // 4, 4]), STEPS // 4).double()
    sigma = math.sqrt(0.25 * 0.75 / (COUNT // 4))
    assert abs(kept[:, place].mean().item() - 0.75) < 5 * sigma
    both = (kept[:, place] * kept[:, (place + 1) % 4]).mean().item()
    assert abs(both - 0.75**2) < 5 * math.sqrt(0.75**2 * (1 - 0.75**2) / (COUNT // 4))


def test_nothing_is_dropped_while_evaluating() -> None:
    states = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(states), states)


def test_nothing_is_dropped_with_probability_zero_and_no_random_number_is_drawn() -> None:
    states = torch.randn(3, 5)
    before = torch.get_rng_state()
    assert torch.equal(Dropout(0.0)(states), states)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_gradient_is_the_mask_times_the_scale() -> None:
    torch.manual_seed(4)
    states = torch.randn(7, 9, requires_grad=True)
    dropped = Dropout(0.4)(states)
    weight = torch.randn(7, 9)
    (dropped * weight).sum().backward()
    kept = dropped.detach() != 0
    assert 0 < kept.sum() < kept.numel()
    scale = STEPS / (STEPS - round(0.4 * STEPS))
    torch.testing.assert_close(states.grad, weight * kept * scale)
    torch.testing.assert_close(dropped, states * kept * scale)


def test_the_input_itself_is_left_alone() -> None:
    states = torch.randn(100)
    before = states.clone()
    Dropout(0.5)(states)
    assert torch.equal(states, before)


def test_one_seed_drops_the_same_elements_and_another_drops_others() -> None:
    drop, states = Dropout(0.5), torch.randn(1000)

    def dropped(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return drop(states)

    assert torch.equal(dropped(5), dropped(5))
    assert not torch.equal(dropped(5), dropped(6))


def test_two_calls_drop_different_elements() -> None:
    torch.manual_seed(7)
    drop, states = Dropout(0.5), torch.ones(1000)
    assert not torch.equal(drop(states), drop(states))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 11), (0,), (4, 0, 2)])
def test_any_shape_is_kept_also_when_its_count_is_no_multiple_of_four(shape: tuple[int, ...]) -> None:
    torch.manual_seed(8)
    dropped = Dropout(0.5)(torch.ones(shape))
    assert dropped.shape == shape
    assert set(dropped.flatten().tolist()) <= {0.0, 2.0}


def test_a_transposed_input_is_dropped_where_the_mask_says() -> None:
    states = torch.randn(6, 10).T
    torch.manual_seed(9)
    dropped = Dropout(0.5)(states)
    torch.manual_seed(9)
    assert torch.equal(dropped, Dropout(0.5)(states.contiguous()))


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_a_probability_outside_its_range_is_refused(p: float) -> None:
    with pytest.raises(UsageError, match=r"\[0, 1\)"):
        Dropout(p)


def test_a_probability_next_to_one_never_divides_by_zero() -> None:
    torch.manual_seed(10)
    assert torch.isfinite(Dropout(1 - 1e-9)(torch.ones(1000))).all()
