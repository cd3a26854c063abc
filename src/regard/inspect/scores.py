"""The stages of every score, from a query vector and prepared keys to one number per key."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from regard.attention import Additive, Cosine, Dot, General, Location, ScaledDot, Score
from regard.inspect.calls import MemoryNumbers
from regard.inspect.results import Array, array
from regard.inspect.stages import Stage, stage


@dataclass(frozen=True, eq=False)
class Asked:
    """One query of one example, and the memory it is compared with."""

    query: Array  # [size]
    memory: MemoryNumbers

    @property
    def keys(self) -> Array:
        return self.memory.keys


def score_stages(score: Score, asked: Asked, own_scores: Callable[[], Array]) -> list[Stage]:
    """The last is called `scores`; of a score that nobody has explained here it is the only one, the model's own."""
    explain = next((EXPLAINED[kind] for kind in type(score).__mro__ if kind in EXPLAINED), None)
    if explain is None:
        return [_scores(f"s_j = {type(score).__name__}(q, k_j)", own_scores())]
    return explain(score, asked)


def _scores(formula: str, numbers: Array) -> Stage:
    return stage("scores", formula, numbers, "How well the query matches each key.", "keys")


def _keys(formula: str, asked: Asked, about: str = "What each key can be found by.") -> Stage:
    return stage("keys", formula, asked.keys, about, "keys", "size")


def _query(asked: Asked) -> Stage:
    return stage("query", "q", asked.query, "What asks: the state before this attention.", "size")


def _products(query: Array, asked: Asked) -> Stage:
    return stage("products", "q ∘ k_j", query * asked.keys, "Query times key, number by number.", "keys", "size")


def _dot(score: Dot, asked: Asked) -> list[Stage]:
    products = _products(asked.query, asked)
    return [_query(asked), _keys("k_j", asked), products, _scores("s_j = q · k_j", products.numbers.sum(1))]


def _scaled_dot(score: ScaledDot, asked: Asked) -> list[Stage]:
    *before, dot = _dot(score, asked)
    size = score.query_size
    return [
        *before,
        stage("dot", "q · k_j", dot.numbers, "How well query and key agree.", "keys"),
        _scores(f"s_j = q · k_j / √{size}", dot.numbers / math.sqrt(size)),
    ]


def _general(score: General, asked: Asked) -> list[Stage]:
    products = _products(asked.query, asked)
    keys = _keys(
        "k_j = W h_j", asked, "Each state where the query lives; W is learnt, and applied once for all queries."
    )
    return [_query(asked), keys, products, _scores("s_j = q · W h_j", products.numbers.sum(1))]


def _cosine(score: Cosine, asked: Asked) -> list[Stage]:
    length = np.linalg.norm(asked.query)
    unit = asked.query / max(length, 1e-12)
    cosines = asked.keys @ unit
    sharpness = array(score.sharpness)
    return [
        _query(asked),
        stage("unit_query", "q / |q|", unit, "The query's direction alone.", "size"),
        _keys("k_j = h_j / |h_j|", asked, "The direction of each state."),
        stage("cosine", "cos(q, h_j)", cosines, "Between −1, opposite, and 1, the same direction.", "keys"),
        stage("sharpness", "β", sharpness, "Learnt: without it the weights could never be sharp."),
        _scores("s_j = β cos(q, h_j)", sharpness * cosines),
    ]


def _additive(score: Additive, asked: Asked) -> list[Stage]:
    projected = _linear(score.query, asked.query)
    added = projected + asked.keys
    hidden = np.tanh(added)
    return [
        stage("state", "s", asked.query, "What asks: the state of the decoder.", "size"),
        stage("query", "W s", projected, "The state, where it can be compared.", "size"),
        _keys("U h_j", asked, "Each state of the memory in the same space; projected once for all queries."),
        stage("added", "W s + U h_j", added, "The question and each key, added.", "keys", "size"),
        stage(
            "tanh",
            "tanh(W s + U h_j)",
            hidden,
            "Each unit says between −1 and 1 how much it likes the pair.",
            "keys",
            "size",
        ),
        _scores("e_j = v · tanh(W s + U h_j)", hidden @ array(score.energy.weight)[0]),
    ]


def _location(score: Location, asked: Asked) -> list[Stage]:
    per_place = array(score.place.weight) @ asked.query
    return [
        _query(asked),
        stage(
            "per_place", "W q", per_place, "One number per place that the score knows: no key was looked at.", "places"
        ),
        _scores("s_j = (W q)_j", per_place[asked.memory.places]),
    ]


def _linear(layer: nn.Module, vector: Array) -> Array:
    """A linear layer, or none where the query is projected already."""
    return array(layer.weight) @ vector if isinstance(layer, nn.Linear) else vector


EXPLAINED: dict[type[Score], Callable[[Any, Asked], list[Stage]]] = {
    Dot: _dot,
    ScaledDot: _scaled_dot,
    General: _general,
    Cosine: _cosine,
    Additive: _additive,
    Location: _location,
}
