"""The learning rate as a fraction of its peak, after `step` updates: linear warm-up, then one of four ways down."""

import math
from collections.abc import Callable

from regard.errors import UsageError


def inverse_sqrt(step: int, warmup: int, steps: int) -> float:
    """Vaswani et al. 2017: falls with the square root of the step."""
    return math.sqrt(max(warmup, 1) / step)


def cosine(step: int, warmup: int, steps: int) -> float:
    """Half a cosine, down to zero at the last step."""
    done = (step - warmup) / max(1, steps - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def linear(step: int, warmup: int, steps: int) -> float:
    """A straight line down to zero at the last step."""
    return max(0.0, (steps - step) / max(1, steps - warmup))


def constant(step: int, warmup: int, steps: int) -> float:
    return 1.0


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}


def check_schedule(name: str) -> None:
    if name not in SCHEDULES:
        raise UsageError(f"there is no schedule called {name!r}: choose one of {', '.join(SCHEDULES)}")


def rate(schedule: str, step: int, warmup: int, steps: int) -> float:
    """The fraction of the peak for the update number `step`, the first being 1."""
    check_schedule(schedule)
    if step <= warmup:
        return step / warmup
    return SCHEDULES[schedule](step, warmup, steps)
