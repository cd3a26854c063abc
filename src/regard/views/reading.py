"""A reader at work, as in the first figure of Cheng, Dong and Lapata (2016): one line per word.

Each line shows the text up to the word being read, which stands in bold; the words before it are shaded by the weight
it pays to them. The first line has nothing to choose from, so the darkest shade is the largest weight of the others.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from regard.views.colours import cividis
from regard.views.maps import AttentionMap, display, mean_heads
from regard.views.paper import INK, fonts, picture_path, save

_FONT, _LINE, _MARGIN, _HEADING = 11.0, 0.3, 0.2, 0.45  # points, then inches


def reading_figure(attention: AttentionMap, path: str | Path | None = None, title: str | None = None) -> Figure:
    """Draw a causal map line by line and, given a path, save it as PNG or SVG by its suffix.

    The queries are the last of the keys; heads are averaged. A word's weight on itself is on its earlier pieces.
    """
    target = None if path is None else picture_path(path)
    weights = mean_heads(attention).weights[0]
    words = [display(token) for token in attention.keys]
    starts = [_MARGIN]
    for word in words:
        starts.append(starts[-1] + _width(word) + 0.1)
    width, height = starts[-1] + _MARGIN, _HEADING + _LINE * len(weights) + _MARGIN
    figure = Figure(figsize=(max(width, 3.0), height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, max(width, 3.0))
    axes.set_ylim(height, 0.0)
    axes.axis("off")
    say: dict[str, Any] = dict(fontsize=_FONT, va="center", parse_math=False, family=fonts())
    axes.text(_MARGIN, _HEADING / 2 + 0.02, attention.name if title is None else title, color=INK, **say)
    largest = float(weights[min(1, len(weights) - 1) :].max()) or 1.0
    for row, paid in enumerate(weights):
        middle = _HEADING + _LINE * (row + 0.5)
        read = len(words) - len(weights) + row  # the word of this line
        for place in range(read + 1):
            red, green, blue = _paper(float(paid[place]) / largest)
            box = dict(facecolor=(red, green, blue), edgecolor="none", boxstyle="square,pad=0.18")
            ink = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else INK
            strength = "bold" if place == read else "normal"
            axes.text(starts[place], middle, words[place], color=ink, bbox=box, fontweight=strength, **say)
    if target is not None:
        save(figure, target)
    return figure


def _paper(share: float) -> tuple[float, float, float]:
    """White for nothing, the darkest colour of the map for the largest weight."""
    level = min(share, 1.0)
    red, green, blue = (part / 255 for part in cividis(0.0))
    return 1 - level * (1 - red), 1 - level * (1 - green), 1 - level * (1 - blue)


def _width(word: str) -> float:
    """Inches: generous for bold Latin letters, a whole em for the scripts that need it."""
    return sum(0.68 if ord(character) < 0x2E80 else 1.0 for character in word) * _FONT / 72
