"""The words of a caption over its picture: where the model looked before it said each of them.

Soft attention is light: its weights are drawn larger smoothly and blurred by half a region, and the picture is as
bright as the attention it got, relative to its brightest place. Hard attention is one region: only that region is lit,
with a frame round it. Two forms: a figure, and an HTML page of several pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.views.paper import INK, MUTED, fonts, picture_path, save
from regard.views.plates import Plate, plates_page

_PANEL, _GAP, _TITLE, _HEADING, _COLUMNS = 1.5, 0.1, 0.22, 0.42, 6  # inches, and panels in a row
_DARK = 0.25  # brightness where nothing is looked at
_FRAME = "#fee838"


@dataclass(frozen=True, eq=False)
class CaptionMap:
    """A picture, the words said of it, and the attention paid to each region of a grid while saying them."""

    image: NDArray[np.uint8]
    """[height, width, 3]; the grid covers all of it."""
    words: tuple[str, ...]
    weights: NDArray[np.floating[Any]]
    """[words, rows, columns]"""
    score: float | None = None
    """Of the caption, if the model came up with it."""
    hard: bool = False
    """One region was read, not all of them."""
    name: str = ""

    def __post_init__(self) -> None:
        where = f"the caption of {self.name or 'a picture'}"
        if self.weights.ndim != 3 or len(self.weights) != len(self.words) or not self.words:
            raise RegardError(f"{where}: weights {self.weights.shape} do not fit {len(self.words)} words")
        if self.image.dtype != np.uint8 or self.image.ndim != 3 or self.image.shape[2] != 3:
            raise RegardError(f"{where}: the picture is {self.image.dtype} {self.image.shape}; give uint8 colours")
        if not np.isfinite(self.weights).all() or self.weights.min() < 0:
            raise RegardError(f"{where}: weights must be finite and not negative")

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def strongest(self, word: int) -> tuple[int, int]:
        """Row and column of the region this word looked at most."""
        row, column = np.unravel_index(int(self.weights[word].argmax()), self.weights[word].shape)
        return int(row), int(column)

    def box(self, word: int) -> tuple[float, float, float, float]:
        """That region as shares of the picture: left, top, right, bottom."""
        (row, column), (rows, columns) = self.strongest(word), self.weights.shape[1:]
        return column / columns, row / rows, (column + 1) / columns, (row + 1) / rows


def smooth(weights: NDArray[np.floating[Any]], height: int, width: int) -> NDArray[np.float64]:
    """Weights [rows, columns] as a map [height, width]: interpolated between the regions' centres, then blurred."""
    down, across = (_spread(size, count) for size, count in zip((height, width), weights.shape, strict=True))
    return np.asarray(down @ weights.astype(np.float64) @ across.T)


def _spread(size: int, count: int) -> NDArray[np.float64]:
    """[size, count]: how much each region is felt at each pixel along one side. Every row sums to one."""
    centres = (np.arange(size) + 0.5) * count / size - 0.5
    linear = np.maximum(0, 1 - np.abs(centres.clip(0, count - 1)[:, None] - np.arange(count)))
    distance = np.arange(size)[:, None] - np.arange(size)
    blur = np.exp(-0.5 * (distance / max(0.5, size / count / 2)) ** 2)
    return np.asarray(blur / blur.sum(1, keepdims=True) @ linear)


def lit(attention: CaptionMap, word: int) -> NDArray[np.uint8]:
    """The picture under the attention of one word."""
    height, width = attention.image.shape[:2]
    if attention.hard:
        left, top, right, bottom = attention.box(word)
        light = np.zeros((height, width))
        light[_pixels(top, bottom, height), _pixels(left, right, width)] = 1.0
    else:
        light = smooth(attention.weights[word], height, width)
        light = light / (light.max() or 1.0)
    return np.asarray((attention.image * (_DARK + (1 - _DARK) * light[..., None])).round().astype(np.uint8))


def _pixels(start: float, end: float, size: int) -> slice:
    return slice(round(start * size), max(round(end * size), round(start * size) + 1))


def caption_figure(attention: CaptionMap, path: str | Path | None = None, title: str | None = None) -> Figure:
    """Draw the picture, then each word's panel; given a path, save it as PNG or SVG."""
    target = None if path is None else picture_path(path)
    count = 1 + len(attention.words)
    columns, rows = min(count, _COLUMNS), -(-count // _COLUMNS)
    height = _PANEL * float(np.clip(attention.image.shape[0] / attention.image.shape[1], 0.4, 2.0))
    total = _GAP + columns * (_PANEL + _GAP), _HEADING + rows * (height + _TITLE + _GAP)
    figure = Figure(figsize=total, facecolor="white")
    say: dict[str, Any] = dict(parse_math=False, family=fonts())
    heading = (attention.name and f"{attention.name}: ") + attention.text if title is None else title
    figure.text(_GAP / total[0], 1 - _HEADING / 2 / total[1], heading, fontsize=9, va="center", color=INK, **say)

    def panel(number: int, told: str, colour: str) -> Axes:
        row, column = divmod(number, columns)
        left, top = _GAP + column * (_PANEL + _GAP), _HEADING + row * (height + _TITLE + _GAP)
        axes = figure.add_axes(
            (left / total[0], 1 - (top + _TITLE + height) / total[1], _PANEL / total[0], height / total[1])
        )
        axes.set_title(told, fontsize=9, pad=3, color=colour, **say)
        axes.set_axis_off()
        return axes

    told = "the picture" if attention.score is None else f"score {attention.score:.2f}"
    panel(0, told, MUTED).imshow(attention.image, aspect="auto")
    for number, word in enumerate(attention.words):
        axes = panel(1 + number, word, INK)
        axes.imshow(lit(attention, number), aspect="auto")
        if attention.hard:
            _frame(axes, attention, number)
    if target is not None:
        save(figure, target)
    return figure


def _frame(axes: Axes, attention: CaptionMap, word: int) -> None:
    height, width = attention.image.shape[:2]
    left, top, right, bottom = attention.box(word)
    corner = (left * width - 0.5, top * height - 0.5)
    axes.add_patch(Rectangle(corner, (right - left) * width, (bottom - top) * height, fill=False, edgecolor=_FRAME))


def caption_page_text(title: str, maps: Sequence[CaptionMap]) -> str:
    about = "What was looked at for each word of the caption"
    return plates_page(title, (Plate(caption_figure(each, title=""), each.text, about, each.name) for each in maps))


def caption_terminal(attention: CaptionMap) -> str:
    """For each word the region it looked at most."""
    lines = []
    for number, word in enumerate(attention.words):
        row, column = attention.strongest(number)
        lines.append(f"{word}: row {row + 1}, column {column + 1} ({attention.weights[number].max():.3f})")
    return "\n".join(lines)
