"""The length curve: how a translator's BLEU changes with the length of the sentence (Bahdanau et al. 2015, figure 2).

One line per model, a band for its bootstrap interval, and below the axis how many sentences each point stands for.
Colours are Cividis, and every model has its own marker and stroke as well, so that grey print tells them apart.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from regard.errors import UsageError
from regard.views.colours import cividis
from regard.views.paper import INK, MUTED, fonts, picture_path, save

MARKERS = ("o", "s", "^", "D", "v", "P")
STROKES = ("-", (0, (6, 2)), (0, (6, 2, 1, 2)), (0, (1, 1.5)), (0, (9, 3)))
LIGHTEST = 0.8  # of Cividis: its last fifth is too pale for a line on white paper


class Bucket(Protocol):
    """BLEU over the sentences of about one length, as `regard.tasks.metrics.LengthBucket` holds it."""

    @property
    def label(self) -> str:
        """Source words, such as "11-20" or "61+"."""

    @property
    def count(self) -> int: ...

    @property
    def bleu(self) -> float: ...

    @property
    def interval(self) -> Sequence[float]: ...


def length_curve(curves: Mapping[str, Sequence[Bucket]], path: str | Path | None = None) -> Figure:
    """Draw BLEU by source length for models by name and, given a path, save it as PNG or SVG by its suffix."""
    target = None if path is None else picture_path(path)
    for name, buckets in curves.items():
        if not buckets:
            raise UsageError(f"the length curve of {name!r} has no bucket; give at least one")
    if not curves:
        raise UsageError("a length curve needs at least one model; give {name: buckets}")
    labels = sorted({bucket.label for buckets in curves.values() for bucket in buckets}, key=_first_length)
    figure = Figure(figsize=(max(5.6, 1.6 + 0.8 * len(labels)), 4.0), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    lines = [_draw(axes, buckets, labels, index, len(curves)) for index, buckets in enumerate(curves.values())]
    _label_axes(axes, labels, list(curves.values()))
    _legend(axes, lines, list(curves))
    if target is not None:
        save(figure, target)
    return figure


def _first_length(label: str) -> int:
    return int(label.removesuffix("+").split("-")[0])


def _draw(axes: Axes, buckets: Sequence[Bucket], labels: Sequence[str], index: int, count: int) -> Line2D:
    red, green, blue = cividis(LIGHTEST * index / max(count - 1, 1))
    colour = f"#{red:02x}{green:02x}{blue:02x}"
    buckets = sorted(buckets, key=lambda bucket: _first_length(bucket.label))
    places = [labels.index(bucket.label) for bucket in buckets]
    low, high = np.array([bucket.interval for bucket in buckets]).T
    axes.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0)
    axes.vlines(places, low, high, color=colour, linewidth=0.8)  # where bands overlap, these still show each end
    (line,) = axes.plot(
        places,
        [bucket.bleu for bucket in buckets],
        color=colour,
        linestyle=STROKES[index % len(STROKES)],
        linewidth=1.8,
        marker=MARKERS[index % len(MARKERS)],
        markersize=6.5,
        markeredgecolor=INK,
        markeredgewidth=0.6,
    )
    return line


def _label_axes(axes: Axes, labels: Sequence[str], curves: Sequence[Sequence[Bucket]]) -> None:
    axes.set_xticks(range(len(labels)), [f"{label}\n{_counts(label, curves)}" for label in labels])
    axes.set_xlim(-0.4, len(labels) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("words of the source, and sentences of that length", fontsize=9, color=MUTED)
    axes.set_ylabel("BLEU", fontsize=9, color=MUTED)
    axes.tick_params(labelsize=9, labelcolor=INK, length=0, pad=5)
    axes.grid(axis="y", color="#e4e7ec", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _counts(label: str, curves: Sequence[Sequence[Bucket]]) -> str:
    """One number where all models translated as many sentences, else each model's own."""
    counts = [sum(bucket.count for bucket in buckets if bucket.label == label) for buckets in curves]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def _legend(axes: Axes, lines: Sequence[Line2D], names: Sequence[str]) -> None:
    # Beside the lines, never over them. Names are set afterwards: matplotlib would skip one that begins with "_".
    legend = axes.figure.legend(
        lines, ["name"] * len(lines), loc="outside upper left", ncols=min(3, len(lines)), frameon=False, fontsize=9.5
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)
        text.set_parse_math(False)
        text.set(color=INK, family=fonts())
