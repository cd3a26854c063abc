"""A classified picture and what its class token looked at: head by head, and rolled out through all layers.

A head's weights lie over the picture patch by patch, each map relative to its strongest patch. Three forms: a picture,
an HTML page of several, and a map for a terminal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.errors import RegardError
from regard.views.colours import cividis
from regard.views.paper import INK, MUTED, fonts, picture_path, save
from regard.views.plates import Plate, plates_page

_PANEL, _GAP, _TITLE, _HEADING = 1.6, 0.12, 0.22, 0.4  # inches
_SHADES = " ░▒▓█"


@dataclass(frozen=True, eq=False)
class ImageMap:
    """A picture as the model read it, and the attention its patches got."""

    image: np.ndarray
    """uint8 [height, width] or [height, width, 3]"""
    weights: np.ndarray
    """[layers, heads, rows, columns]: what the class token paid to each patch."""
    rollout: np.ndarray
    """[rows, columns]: the same through all layers."""
    patch_size: int
    """Pixels of a patch's side."""
    layers: tuple[int, ...]
    """Their numbers as a reader says them, from 1; so are those of the heads."""
    heads: tuple[int, ...]
    label: str
    probability: float
    name: str = ""
    """Which picture this is."""

    def __post_init__(self) -> None:
        where = f"the attention over {self.name or 'a picture'}"
        grid = self.rollout.shape
        if len(grid) != 2 or self.weights.shape != (len(self.layers), len(self.heads), *grid) or not self.weights.size:
            raise RegardError(
                f"{where}: weights {self.weights.shape} and rollout {grid} do not fit {len(self.layers)} layers of "
                f"{len(self.heads)} heads"
            )
        if self.image.dtype != np.uint8 or self.image.ndim not in (2, 3):
            raise RegardError(f"{where}: the picture is {self.image.dtype} {self.image.shape}; give uint8 pixels")
        for weights in (self.weights, self.rollout):
            if not np.isfinite(weights).all() or weights.min() < 0:
                raise RegardError(f"{where}: weights must be finite and not negative")

    @property
    def verdict(self) -> str:
        return f"{self.label} ({100 * self.probability:.1f} %)" if self.label else "no labels"

    @property
    def heading(self) -> str:
        return f"{self.name}: {self.verdict}" if self.name else self.verdict


def image_figure(attention: ImageMap, path: str | Path | None = None, title: str | None = None) -> Figure:
    """Draw the picture, its rollout and, a row per layer, every head; given a path, save it as PNG or SVG."""
    target = None if path is None else picture_path(path)
    columns, rows = max(2, len(attention.heads)), 1 + len(attention.layers)
    width, height = _GAP + columns * (_PANEL + _GAP), _HEADING + rows * (_PANEL + _TITLE + _GAP)
    figure = Figure(figsize=(width, height), facecolor="white")
    say: dict[str, Any] = dict(parse_math=False, family=fonts())
    heading = attention.heading if title is None else title
    figure.text(_GAP / width, 1 - _HEADING / 2 / height, heading, fontsize=11, va="center", color=INK, **say)

    def panel(row: int, column: int, told: str) -> Axes:
        left, top = _GAP + column * (_PANEL + _GAP), _HEADING + row * (_PANEL + _TITLE + _GAP)
        axes = figure.add_axes((left / width, 1 - (top + _TITLE + _PANEL) / height, _PANEL / width, _PANEL / height))
        axes.set_title(told, fontsize=8, pad=3, color=MUTED, **say)
        axes.set_axis_off()
        return axes

    panel(0, 0, "what it read").imshow(attention.image, cmap="gray", vmin=0, vmax=255)
    _overlay(panel(0, 1, "rollout of all layers"), attention, attention.rollout)
    for row, layer in enumerate(attention.layers):
        for column, head in enumerate(attention.heads):
            _overlay(panel(1 + row, column, f"layer {layer}, head {head}"), attention, attention.weights[row, column])
    if target is not None:
        save(figure, target)
    return figure


def _overlay(axes: Axes, attention: ImageMap, weights: np.ndarray) -> None:
    """The picture in grey below the map: the colours belong to the attention."""
    image = attention.image if attention.image.ndim == 2 else attention.image.mean(axis=2)
    bottom, right = (count * attention.patch_size - 0.5 for count in weights.shape)
    strongest = float(weights.max()) or 1.0
    axes.imshow(image, cmap="gray", vmin=0, vmax=255)
    axes.imshow(weights, cmap="cividis", alpha=0.65, vmin=0, vmax=strongest, extent=(-0.5, right, bottom, -0.5))
    axes.set_xlim(-0.5, image.shape[1] - 0.5)
    axes.set_ylim(image.shape[0] - 0.5, -0.5)


def image_page_text(title: str, maps: Sequence[ImageMap]) -> str:
    about = "Attention of the class token over the picture"
    return plates_page(title, (Plate(image_figure(each, title=""), each.heading, about) for each in maps))


def image_terminal(attention: ImageMap, colour: bool = False) -> str:
    """The rollout, two characters per patch: darker to lighter, relative to the strongest."""
    shares = attention.rollout / (float(attention.rollout.max()) or 1.0)
    return "\n".join("".join(_cell(float(share), colour) for share in row) for row in shares)


def _cell(share: float, colour: bool) -> str:
    if not colour:
        return 2 * _SHADES[min(int(share * len(_SHADES)), len(_SHADES) - 1)]
    red, green, blue = cividis(share)
    return f"\x1b[48;2;{red};{green};{blue}m  \x1b[0m"
