"""The stages of every alignment, from scores to weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.attention import Alignment, Hard, LocalMonotonic, LocalPredictive, Soft
from regard.inspect.results import Array, array
from regard.inspect.scores import Asked
from regard.inspect.stages import Stage, numbers_of, softmax, stage
from regard.layers.temporal import Past


@dataclass(frozen=True)
class Scored:
    """The scores of one query, and what else an alignment may look at."""

    scores: Array  # [keys]
    place: int  # of the query in time
    own_key: int  # where among the keys the query itself would stand, were it the newest of them
    asked: Asked
    training: bool
    own_weights: Callable[[], Array]  # [keys]: those of the model itself

    @property
    def real(self) -> Array:
        """[keys]: what is not padding."""
        return self.asked.memory.real

    @property
    def length(self) -> int:
        """How many keys are real."""
        return int(self.real.sum())


def alignment_stages(align: Alignment, scored: Scored) -> list[Stage]:
    """The last is called `weights`; of an alignment that nobody has explained here it is the only one."""
    explain = next((EXPLAINED[kind] for kind in type(align).__mro__ if kind in EXPLAINED), None)
    if explain is None:
        return [
            _weights(
                f"a = {type(align).__name__}(s)", scored.own_weights(), "The weights as this alignment makes them."
            )
        ]
    return explain(align, scored)


def _weights(formula: str, numbers: Array, about: str) -> Stage:
    return stage("weights", formula, numbers, about, "keys")


def _soft(align: Soft, scored: Scored) -> list[Stage]:
    return softmax(scored.scores, scored.real)


def _hard(align: Hard, scored: Scored) -> list[Stage]:
    stages = softmax(scored.scores, scored.real, "probabilities", "p")
    chances = numbers_of(stages, "probabilities")
    best = (np.arange(len(chances)) == chances.argmax()) & (chances > 0) if len(chances) else chances
    if scored.training:  # a draw cannot be computed again
        return [
            *stages,
            _weights("a = a draw from p", scored.own_weights(), "One key, drawn by chance, is read alone."),
        ]
    return [*stages, _weights("a_j = 1 for the best j", 1.0 * best, "One key, the most probable, is read alone.")]


def _window(scored: Scored, centre: float, reach: int) -> tuple[Stage, Array]:
    near = np.abs(scored.asked.memory.places - centre) <= reach
    about = f"Only keys at most {reach} places from the centre are looked at."
    return stage("window", f"|j − p| ≤ {reach}", near, about, "keys"), near


def _local_monotonic(align: LocalMonotonic, scored: Scored) -> list[Stage]:
    centre = min(scored.place, max(scored.length - 1, 0))
    window, near = _window(scored, centre, align.reach)
    about = "The centre of the window: the query's own place, or the last key."
    return [stage("centre", "p = t", centre, about), window, *softmax(scored.scores, scored.real & near)]


def _local_predictive(align: LocalPredictive, scored: Scored) -> list[Stage]:
    hidden = np.tanh(array(align.hidden.weight) @ scored.asked.query)
    fraction = 1 / (1 + np.exp(-(array(align.place.weight)[0] @ hidden)))
    centre = scored.length * fraction
    window, near = _window(scored, centre, align.reach)
    sigma = align.reach / 2
    soft = softmax(scored.scores, scored.real & near, "softmax")
    gaussian = np.exp(-((scored.asked.memory.places - centre) ** 2) / (2 * sigma**2))
    weights = numbers_of(soft, "softmax") * gaussian
    return [
        stage("place_hidden", "tanh(W_p q)", hidden, "The query, on its way to a place.", "size"),
        stage("fraction", "σ(v_p · tanh(W_p q))", fraction, "How far along the keys to look, from 0 to 1."),
        stage("centre", f"p = {scored.length} σ(v_p · tanh(W_p q))", centre, "The centre of the window: predicted."),
        window,
        *soft,
        stage(
            "gaussian", f"exp(−(j − p)² / 2σ²), σ = {sigma:g}", gaussian, "The nearer to the centre, the more.", "keys"
        ),
        _weights("a_j = softmax_j · gaussian_j", weights, "Nothing is made to add up to one again."),
    ]


def _past(align: Past, scored: Scored) -> list[Stage]:
    keys = np.arange(len(scored.scores))
    visible = (keys < scored.place) | (keys == scored.own_key)
    about = "The query sees what was before it, and itself."
    return [
        stage("window", "j < t or j is the query", visible, about, "keys"),
        *softmax(scored.scores, scored.real & visible),
    ]


EXPLAINED: dict[type[Alignment], Callable[[Any, Scored], list[Stage]]] = {
    Soft: _soft,
    Hard: _hard,
    LocalMonotonic: _local_monotonic,
    LocalPredictive: _local_predictive,
    Past: _past,
}
