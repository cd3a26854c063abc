"""A query among labelled examples, and which of them it looked at: the examples in a row, below each what it was paid.

A row of cells per attention block, from the first to the last; the weights of a row sum to one, with what the query
paid to itself. Of many examples the ones that were paid most are shown. Three forms: a picture, an HTML page of
several, and lines for a terminal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import RegardError
from regard.views.paper import INK, MUTED, fonts, picture_path, save
from regard.views.plates import Plate, plates_page

MOST_SHOWN = 25  # examples of a figure
_SIDE, _CELL, _LEFT, _TOP, _GAP = 0.62, 0.26, 1.35, 0.78, 0.06  # inches


@dataclass(frozen=True, eq=False)
class MatchMap:
    """A query, its examples, and the attention they got: plain arrays and strings."""

    query: np.ndarray
    """uint8 [height, width] or [height, width, 3]"""
    examples: Sequence[np.ndarray]
    labels: Sequence[str]
    """Of the examples."""
    weights: np.ndarray
    """[attention blocks, examples + 1]: what the query paid to each example and, at last, to itself."""
    label: str
    probability: float
    name: str = ""
    names: Sequence[str] = ()
    """Of the examples, such as their files."""

    def __post_init__(self) -> None:
        count = len(self.examples)
        if not count or len(self.labels) != count or self.weights.ndim != 2 or self.weights.shape[1] != count + 1:
            raise RegardError(
                f"the match of {self.name or 'a picture'}: weights {self.weights.shape} and {len(self.labels)} labels "
                f"do not fit {count} examples"
            )
        if not np.isfinite(self.weights).all() or self.weights.min(initial=0.0) < 0:
            raise RegardError(f"the match of {self.name or 'a picture'}: weights must be finite and not negative")

    @property
    def heading(self) -> str:
        verdict = f"{self.label} ({100 * self.probability:.1f} %)"
        return f"{self.name}: {verdict}" if self.name else verdict

    def shown(self) -> list[int]:
        """The examples of a figure in their order; of too many, those that were paid most in all."""
        strongest = np.argsort(-self.weights[:, :-1].sum(0), kind="stable")[:MOST_SHOWN]
        return sorted(strongest.tolist())


def match_figure(match: MatchMap, path: str | Path | None = None, title: str | None = None) -> Figure:
    """Draw the examples, the query behind them, and their weights; given a path, save it as PNG or SVG."""
    target = None if path is None else picture_path(path)
    shown = match.shown()
    pictures = [match.examples[number] for number in shown] + [match.query]
    told = [match.labels[number] for number in shown] + ["itself"]
    weights = match.weights[:, [*shown, -1]]
    step = _SIDE + _GAP
    width, height = _LEFT + len(pictures) * step + _GAP, _TOP + _SIDE + len(weights) * (_CELL + _GAP) + 2 * _GAP
    figure = Figure(figsize=(width, height), facecolor="white")
    say: dict[str, Any] = dict(parse_math=False, family=fonts())
    heading = match.heading if title is None else title
    figure.text(_GAP / width, 1 - 0.2 / height, heading, fontsize=11, va="center", color=INK, **say)
    colour, scale = matplotlib.colormaps["cividis"], PowerNorm(0.5, 0.0, 1.0)
    for column, (picture, label) in enumerate(zip(pictures, told, strict=True)):
        left = _LEFT + column * step
        axes = figure.add_axes((left / width, 1 - (_TOP + _SIDE) / height, _SIDE / width, _SIDE / height))
        axes.imshow(picture, cmap="gray", vmin=0, vmax=255)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color(MUTED)
        axes.set_title(_short(label), fontsize=8, pad=3, color=INK if label == match.label else MUTED, **say)
        for row, weight in enumerate(weights[:, column].tolist()):
            bottom = _TOP + _SIDE + _GAP + (row + 1) * (_CELL + _GAP) - _GAP
            place = left / width, 1 - bottom / height
            cell = Rectangle(
                place, _SIDE / width, _CELL / height, color=colour(scale(weight)), transform=figure.transFigure
            )
            figure.add_artist(cell)
            centre = (left + _SIDE / 2) / width, 1 - (bottom - _CELL / 2) / height
            ink = "white" if weight < 0.3 else INK
            figure.text(*centre, f"{100 * weight:.0f} %", fontsize=7, ha="center", va="center", color=ink, **say)
    for row in range(len(weights)):
        middle = _TOP + _SIDE + _GAP + row * (_CELL + _GAP) + _CELL / 2
        figure.text(
            _GAP / width, 1 - middle / height, f"attention {row + 1}", fontsize=8, va="center", color=MUTED, **say
        )
    if target is not None:
        save(figure, target)
    return figure


def _short(label: str, longest: int = 10) -> str:
    return label if len(label) <= longest else f"{label[: longest - 1]}…"


def match_page_text(title: str, matches: Sequence[MatchMap]) -> str:
    about = "Which examples the query attended to"
    return plates_page(title, (Plate(match_figure(each, title=""), each.heading, about) for each in matches))


def match_terminal(match: MatchMap, most: int = 3) -> str:
    """The examples that the last attention paid most, a line each."""
    paid = match.weights[-1, :-1]
    names = match.names or match.labels
    return "\n".join(f"    {paid[number]:.4f}  {names[number]}" for number in np.argsort(-paid, kind="stable")[:most])
