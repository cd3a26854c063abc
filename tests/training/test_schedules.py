"""Each schedule against its formula, written out by hand."""

import math
from dataclasses import asdict

import pytest

from regard.errors import UsageError
from regard.training.schedules import SCHEDULES, rate
from regard.training.settings import Training

WARMUP, STEPS = 4, 20


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("step", range(1, WARMUP + 1))
def test_every_schedule_warms_up_in_a_straight_line(schedule: str, step: int) -> None:
    assert rate(schedule, step, WARMUP, STEPS) == step / WARMUP


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_reaches_its_peak_once_and_never_exceeds_it(schedule: str) -> None:
    rates = [rate(schedule, step, WARMUP, STEPS) for step in range(1, 2 * STEPS)]
    assert max(rates) == rates[WARMUP - 1] == 1.0
    assert min(rates) >= 0.0
    assert all(later <= earlier for earlier, later in zip(rates[WARMUP - 1 :], rates[WARMUP:], strict=False))


@pytest.mark.parametrize("step", [1, 3, 4, 5, 9, 16, 20, 1000])
def test_inverse_sqrt_is_the_papers_schedule_over_its_peak(step: int) -> None:
    def paper(number: int) -> float:
        return 512**-0.5 * min(number**-0.5, number * WARMUP**-1.5)

    assert rate("inverse_sqrt", step, WARMUP, STEPS) == pytest.approx(paper(step) / paper(WARMUP), rel=1e-12)


def test_inverse_sqrt_halves_when_the_steps_are_four_times_the_warm_up() -> None:
    assert rate("inverse_sqrt", 16, WARMUP, STEPS) == 0.5


@pytest.mark.parametrize(
    ("step", "expected"),
    [(8, 0.5 * (1 + math.cos(math.pi / 4))), (12, 0.5), (16, 0.5 * (1 - math.cos(math.pi / 4))), (20, 0.0)],
)
def test_cosine_is_half_a_wave_down_to_zero(step: int, expected: float) -> None:
    assert rate("cosine", step, WARMUP, STEPS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("step", "expected"), [(5, 15 / 16), (12, 0.5), (19, 1 / 16), (20, 0.0)])
def test_linear_is_a_line_down_to_zero(step: int, expected: float) -> None:
    assert rate("linear", step, WARMUP, STEPS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("step", [5, 20, 400])
def test_constant_stays(step: int) -> None:
    assert rate("constant", step, WARMUP, STEPS) == 1.0


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_beyond_the_last_step_the_rate_stays_zero(schedule: str) -> None:
    assert rate(schedule, STEPS + 7, WARMUP, STEPS) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("inverse_sqrt", [1.0, math.sqrt(1 / 2), 0.5]),
        ("cosine", [0.5 * (1 + math.cos(math.pi / 4)), 0.5, 0.0]),
        ("linear", [0.75, 0.5, 0.0]),
        ("constant", [1.0, 1.0, 1.0]),
    ],
)
def test_without_a_warm_up_the_way_down_begins_at_once(schedule: str, expected: list[float]) -> None:
    assert [rate(schedule, step, 0, 4) for step in (1, 2, 4)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warm_up_as_long_as_the_training_ends_at_the_peak(schedule: str) -> None:
    assert rate(schedule, STEPS, STEPS, STEPS) == 1.0


def test_an_unknown_schedule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"noam.*inverse_sqrt, cosine, linear, constant"):
        rate("noam", 1, WARMUP, STEPS)


@pytest.mark.parametrize(("steps", "expected"), [(250, 25), (5_000, 500), (100_000, 1_000), (3, 0)])
def test_a_warm_up_that_nobody_set_is_a_tenth_of_the_training(steps: int, expected: int) -> None:
    assert Training(steps=steps).warmup == expected
    assert Training(steps=steps, warmup=7).warmup == 7


def test_a_run_keeps_the_warm_up_it_began_with_when_it_is_drawn_out() -> None:
    begun = asdict(Training(steps=250))
    assert Training(**{**begun, "steps": 5_000}).warmup == 25
