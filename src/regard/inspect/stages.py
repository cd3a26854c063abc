"""One stage of a computation, and the stages that every attention shares: softmax, and the reading of values."""

from dataclasses import dataclass

import numpy as np

from regard.inspect.results import Array, Result


@dataclass(frozen=True, eq=False)
class Stage(Result):
    """A named intermediate result with its formula, its numbers and one sentence on it."""

    name: str
    formula: str
    numbers: Array
    about: str
    axes: tuple[str, ...]  # what each axis of the numbers counts: keys, size, ...


def stage(name: str, formula: str, numbers: Array | float | bool, about: str, *axes: str) -> Stage:
    return Stage(name, formula, np.asarray(numbers), about, axes)


def softmax(scores: Array, allowed: Array, result: str = "weights", symbol: str = "a") -> list[Stage]:
    """From scores [keys] to weights, slowly: mask, subtract the largest, exponentiate, sum, divide."""
    visible = np.where(allowed, scores, -np.inf)
    largest = visible.max(initial=-np.inf)
    below = visible - (largest if np.isfinite(largest) else 0.0)
    exponentials = np.exp(below)
    total = exponentials.sum()
    weights = exponentials / total if total else exponentials  # who may look at nothing pays zeros
    return [
        stage("mask", "j may be looked at", allowed, "Padding and the future are hidden from the query.", "keys"),
        stage(
            "minus_max",
            "s_j − max s",
            below,
            "Subtracting the largest score changes no weight and keeps the exponentials small; hidden keys get −∞.",
            "keys",
        ),
        stage("exp", "e_j = exp(s_j − max s)", exponentials, "Every score becomes positive.", "keys"),
        stage("sum", "Z = Σ_j e_j", total, "What the exponentials are divided by."),
        stage(result, f"{symbol}_j = e_j / Z", weights, "The shares of attention: they add up to one.", "keys"),
    ]


def reading(weights: Array, values: Array, formula: str = "v_j") -> list[Stage]:
    """The weighted sum of the values [keys, size]."""
    weighted = weights[:, None] * values
    return [
        stage("values", formula, values, "What can be read at each key.", "keys", "size"),
        stage(
            "weighted_values", "a_j v_j", weighted, "Each value as strongly as its key was attended to.", "keys", "size"
        ),
        stage("context", "c = Σ_j a_j v_j", weighted.sum(0), "What was read: the sum over all keys.", "size"),
    ]


def numbers_of(stages: list[Stage], name: str) -> Array:
    return next(stage.numbers for stage in reversed(stages) if stage.name == name)
