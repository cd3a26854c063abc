"""The stages of a head of a Neural Turing Machine (Graves et al. 2014), equations 2 to 9: find a place, read, write."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from regard.attention import Attention
from regard.inspect.calls import Call
from regard.inspect.results import Array, array
from regard.inspect.stages import Stage, numbers_of, reading, softmax, stage
from regard.layers.addressing import FAINTEST, SMALLEST, Focus


@dataclass(frozen=True)
class Wishes:
    """What a head asks for, as its controller said it, before softplus and sigmoid; and the weights it had before."""

    key: Array
    beta: float
    gate: float
    shifts: Array
    gamma: float
    before: Array


def is_addressing(module: nn.Module) -> bool:
    return isinstance(module, Attention) and isinstance(module.align, Focus)


def addressing_stages(call: Call, row: int, head: int) -> list[Stage]:
    """Read heads come first. A head that writes has three stages more: erase, add, and the memory afterwards."""
    cells, wishes = call.memory_of(row).keys, _wishes(call, row, head)
    stages = _by_content(cells, wishes)
    stages += _by_location(numbers_of(stages, "content"), wishes)
    stages += reading(numbers_of(stages, "weights"), cells, "M(i)")
    return stages + _writing(call, row, head, cells)


def _wishes(call: Call, row: int, head: int) -> Wishes:
    align = call.module.align
    assert isinstance(align, Focus)
    # The sizes of Focus begin with [k, beta], which it leaves to the score.
    size = align.sizes[0] - 1
    asked = array(call.of_row(call.given["query"], row))[head]
    key, beta, gate, shifts, gamma, before = np.split(asked, np.cumsum([size, 1, *align.sizes[1:-1]]))
    return Wishes(key, float(beta[0]), float(gate[0]), shifts, float(gamma[0]), before)


def _by_content(cells: Array, wishes: Wishes) -> list[Stage]:
    squares = (wishes.key**2).sum() * (cells**2).sum(1)
    cosines = cells @ wishes.key / np.sqrt(np.maximum(squares, SMALLEST))
    beta = _softplus(wishes.beta)
    return [
        stage("key", "k", wishes.key, "What the head looks for.", "size"),
        stage("memory", "M(i)", cells, "What the cells hold before this step.", "cells", "size"),
        stage("cosine", "K[k, M(i)]", cosines, "How alike the key and each cell are.", "cells"),
        stage("strength", "β = softplus", beta, "How much likeness counts."),
        stage("scores", "β K[k, M(i)]", beta * cosines, "Likeness, made stronger.", "cells"),
        *softmax(beta * cosines, np.ones(len(cells), dtype=bool), "content", "w_c"),
    ]


def _by_location(content: Array, wishes: Wishes) -> list[Stage]:
    gate = _sigmoid(wishes.gate)
    gated = gate * content + (1 - gate) * wishes.before
    shifts = np.exp(wishes.shifts - wishes.shifts.max())
    shifts /= shifts.sum()
    reach = len(shifts) // 2
    moved = np.sum([share * np.roll(gated, step) for step, share in enumerate(shifts, -reach)], axis=0)
    gamma = 1 + _softplus(wishes.gamma)
    powers = np.maximum(moved, FAINTEST) ** gamma
    return [
        stage("gate", "g = σ", gate, "1: go by content; 0: stay where the head was."),
        stage("before", "w_{t−1}", wishes.before, "Where the head looked one step ago.", "cells"),
        stage("gated", "w_g = g w_c + (1 − g) w_{t−1}", gated, "By content, or from where the head stood.", "cells"),
        stage("shifts", "s", shifts, f"The shares of a move by −{reach} … {reach} cells.", "moves"),
        stage("shifted", "w̃(i) = Σ_j w_g(j) s(i − j)", moved, "Moved along the ring of cells.", "cells"),
        stage("sharpness", "γ = 1 + softplus", gamma, "How sharp the weights become again."),
        stage("weights", "w(i) = w̃(i)^γ / Σ_j w̃(j)^γ", powers / powers.sum(), "Where the head looks.", "cells"),
    ]


def _writing(call: Call, row: int, head: int, cells: Array) -> list[Stage]:
    """Erase and add vectors are what the controller says after the wishes of all heads."""
    heads = call.queries
    align = call.module.align
    assert isinstance(align, Focus)
    asked = heads * (sum(align.sizes) - align.sizes[-1])
    said = None if call.wishes is None else array(call.wishes[row])[asked:]
    writers = 0 if said is None else len(said) // (2 * cells.shape[1])
    number = head - (heads - writers)
    if said is None or number < 0:
        return []
    erases, adds = said.reshape(2, writers, cells.shape[1])
    erases = _sigmoid(erases)
    weights = array(call.own_weights(row))[heads - writers :]
    after = cells * np.prod([1 - np.outer(w, e) for w, e in zip(weights, erases, strict=True)], axis=0)
    after = after + weights.T @ adds
    others = "" if writers == 1 else " All heads erase before any adds."
    return [
        stage("erase", "e", erases[number], "How much of what a cell holds is wiped out.", "size"),
        stage("add", "a", adds[number], "What is written instead.", "size"),
        stage(
            "written", "M'(i) = M(i) [1 − w(i) e] + w(i) a", after, f"The memory afterwards.{others}", "cells", "size"
        ),
    ]


def _softplus(value: float) -> float:
    return float(np.logaddexp(0.0, value))


def _sigmoid(value: Any) -> Any:
    return 1 / (1 + np.exp(-value))
