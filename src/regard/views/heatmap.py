"""Heat maps as PNG or SVG, drawn with matplotlib's figure objects (no pyplot, so no global state).

Cividis on a square-root scale: softmax has a long tail, and a linear scale shows only its head. The colour bar
always says raw weights. Cells a causal mask forbids are hatched; they have no weight, which is not a weight of zero.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Polygon
from matplotlib.ticker import MaxNLocator

from regard.errors import RegardError, UsageError
from regard.views.maps import AttentionMap, display, mean_heads
from regard.views.paper import HATCH, INK, MASK, MUTED, fonts, picture_path, save

_LARGEST = 40.0  # inches along one side of the map; beyond that the cells shrink and labels are thinned
_SMALLEST_FONT = 5.0
_LONGEST_LABEL = 24


def heatmap(
    weights: AttentionMap | np.ndarray,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    path: str | Path | None = None,
    title: str | None = None,
    *,
    scale: str = "sqrt",
) -> Figure:
    """Draw one heat map and, given a path, save it as PNG or SVG by its suffix.

    `weights` is a map (its heads are averaged, its tokens and name used unless others are given) or a matrix
    [queries, keys] with its labels. `scale` is "sqrt" or "linear".
    """
    if isinstance(weights, AttentionMap):
        matrix, masked = mean_heads(weights).weights[0], weights.masked
        queries = weights.queries if queries is None else queries
        keys = weights.keys if keys is None else keys
        title = _title(weights) if title is None else title
    else:
        matrix = np.asarray(weights, dtype=np.float32)
        masked = np.zeros(matrix.shape, dtype=bool)
    if queries is None or keys is None:
        raise UsageError("a heat map of a plain matrix needs labels: give queries=[...] and keys=[...]")
    _check_shape(matrix, queries, keys)
    target = None if path is None else picture_path(path)

    cell = _cell_size(max(matrix.shape))
    font = float(np.clip(cell * 72 * 0.56, _SMALLEST_FONT, 11.0))
    rows, columns = _labels(queries), _labels(keys)
    left, top = _label_room(rows, font), _label_room(columns, font)
    heading = 0.42 if title else 0.15
    width, height = cell * len(keys), cell * len(queries)
    total = max(left + width + 1.05, 3.4), top + height + heading + 0.3
    figure = Figure(figsize=total, facecolor="white")
    axes = figure.add_axes((left / total[0], 0.3 / total[1], width / total[0], height / total[1]))
    norm = _norm(scale, float(matrix.max()))
    image = _draw(axes, matrix, masked, norm)
    _label_axes(axes, rows, columns, font, cell)
    if title:
        figure.text(
            0.15 / total[0], 1 - 0.16 / total[1], title,
            va="top", fontsize=min(13.0, font + 3), color=INK, parse_math=False, family=fonts(),
        )  # fmt: skip
    bar_height = min(height, 3.2)
    bar = figure.add_axes(
        (
            (left + width + 0.16) / total[0],
            (0.3 + height - bar_height) / total[1],
            0.12 / total[0],
            bar_height / total[1],
        )
    )
    _colour_bar(figure, image, bar, norm, max(6.5, min(9.0, font)))
    if target is not None:
        save(figure, target)
    return figure


def _title(known: AttentionMap) -> str:
    heads = known.weights.shape[0]
    return known.name if heads == 1 else f"{known.name}, mean of {heads} heads"


def _check_shape(matrix: np.ndarray, queries: Sequence[str], keys: Sequence[str]) -> None:
    if matrix.shape != (len(queries), len(keys)) or 0 in matrix.shape:
        raise RegardError(
            f"weights have shape {matrix.shape} but there are {len(queries)} queries and {len(keys)} keys"
        )


def heads_figure(
    attention: AttentionMap,
    path: str | Path | None = None,
    title: str | None = None,
    *,
    scale: str = "sqrt",
) -> Figure:
    """All heads of one layer as small multiples on one colour scale."""
    target = None if path is None else picture_path(path)
    heads, queries, keys = attention.weights.shape
    columns = min(heads, 4 if heads <= 16 else math.ceil(math.sqrt(heads)))
    rows = math.ceil(heads / columns)
    cell = min(0.34, max(0.5 * _cell_size(max(queries, keys)), 2.4 / max(queries, keys)))
    font = float(np.clip(cell * 72 * 0.6, _SMALLEST_FONT, 9.0))
    query_labels, key_labels = _labels(attention.queries), _labels(attention.keys)
    left, top = _label_room(query_labels, font), _label_room(key_labels, font)
    width, height = cell * keys, cell * queries
    gap, heading = 0.22, 0.3
    total_width = left + columns * width + (columns - 1) * gap + 1.0
    total_height = 0.5 + top + rows * (height + heading) + (rows - 1) * gap + 0.15
    figure = Figure(figsize=(total_width, total_height), facecolor="white")
    norm = _norm(scale, float(attention.weights.max()))
    for head in range(heads):
        row, column = divmod(head, columns)
        x = left + column * (width + gap)
        # Key labels belong to the first row of heads, the heads' names below their own map.
        y = total_height - 0.5 - top - (row + 1) * height - row * (heading + gap)
        axes = figure.add_axes((x / total_width, y / total_height, width / total_width, height / total_height))
        image = _draw(axes, attention.weights[head], attention.masked, norm)
        _label_axes(axes, query_labels if column == 0 else [], key_labels if row == 0 else [], font, cell)
        axes.text(
            0.5, -0.08 / height, f"head {head + 1}",
            transform=axes.transAxes, ha="center", va="top", fontsize=8.5, color=MUTED, family=fonts(),
        )  # fmt: skip
    figure.text(
        0.15 / total_width, 1 - 0.15 / total_height, attention.name if title is None else title,
        va="top", fontsize=12, color=INK, parse_math=False, family=fonts(),
    )  # fmt: skip
    bar_height = min(height, 2.4)
    bar = figure.add_axes(
        (
            (left + columns * width + (columns - 1) * gap + 0.16) / total_width,
            (total_height - 0.5 - top - bar_height) / total_height,
            0.1 / total_width,
            bar_height / total_height,
        )
    )
    _colour_bar(figure, image, bar, norm, 7.5)
    if target is not None:
        save(figure, target)
    return figure


def _cell_size(count: int) -> float:
    """Inches per cell: 0.46 for a short sentence, 0.17 for eighty tokens, less only where the page would end."""
    return min(float(np.interp(count, (8, 30, 80), (0.46, 0.27, 0.17))), _LARGEST / count)


def _labels(tokens: Sequence[str]) -> list[str]:
    shown = [display(token) for token in tokens]
    return [text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…" for text in shown]


def _label_room(labels: Sequence[str], font: float) -> float:
    """Inches for the longest label. 0.62 em is generous for Latin; other scripts may be a whole em wide."""
    longest = max(sum(0.62 if ord(character) < 0x2E80 else 1.0 for character in label) for label in labels)
    return longest * font / 72 + 0.25


def _norm(scale: str, largest: float) -> Normalize:
    largest = largest or 1.0
    if scale == "sqrt":
        return PowerNorm(0.5, vmin=0.0, vmax=largest)
    if scale == "linear":
        return Normalize(vmin=0.0, vmax=largest)
    raise UsageError(f"unknown scale {scale!r}; use sqrt or linear")


def _draw(axes: Axes, matrix: np.ndarray, masked: np.ndarray, norm: Normalize) -> AxesImage:
    queries, keys = matrix.shape
    image = axes.imshow(
        np.ma.masked_array(matrix, masked), cmap="cividis", norm=norm, aspect="auto", interpolation="nearest"
    )
    if masked.any():
        # The forbidden cells end every row: one outline around them all keeps the hatching whole.
        visible = (~masked).sum(axis=1)
        stairs = [(keys - 0.5, queries - 0.5), (keys - 0.5, -0.5)]
        stairs += [(count - 0.5, row + edge) for row, count in enumerate(visible) for edge in (-0.5, 0.5)]
        axes.add_patch(Polygon(stairs, closed=True, facecolor=MASK, edgecolor=HATCH, hatch="////", linewidth=0.0))
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def _label_axes(axes: Axes, rows: Sequence[str], columns: Sequence[str], font: float, cell: float) -> None:
    stride = max(1, math.ceil(font * 1.05 / (cell * 72)))
    axes.set_yticks(range(0, len(rows), stride))
    axes.set_yticklabels(rows[::stride], fontsize=font, parse_math=False, family=fonts(), color=INK)
    axes.set_xticks(range(0, len(columns), stride))
    axes.set_xticklabels(columns[::stride], fontsize=font, rotation=90, parse_math=False, family=fonts(), color=INK)
    axes.tick_params(top=False, bottom=False, left=False, labeltop=True, labelbottom=False, pad=3)


def _colour_bar(figure: Figure, image: AxesImage, axes: Axes, norm: Normalize, font: float) -> None:
    bar = figure.colorbar(image, cax=axes)
    top = float(norm.vmax or 1.0)
    if isinstance(norm, PowerNorm):
        # Even steps on the drawn scale, named by their raw weights.
        ticks = [top * step**2 for step in (0.0, 0.25, 0.5, 0.75, 1.0)]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    else:
        bar.locator = MaxNLocator(5)
        bar.update_ticks()
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=font, colors=MUTED, length=0, pad=3)
