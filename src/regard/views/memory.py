"""A memory at work, step by step: the pictures of Graves et al. 2014 (figures 4, 6 and 12).

    inputs           what came in               outputs         what was said, where it was asked
    adds             what was written           reads           what was read
    write weights    where it was written       read weights    where it was read

Time runs to the right. Of the memory only the cells that somebody attended to are shown, in their order around the
ring. Weights are cividis on a square-root scale, as in every heat map here; vectors are centred on zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.views.paper import INK, MASK, MUTED, fonts, picture_path, save
from regard.views.plates import Plate, plates_page

Array = NDArray[np.float32]

SEEN = 0.05  # the largest weight of a cell that is shown is at least this
_STEP, _ROW = 0.085, 0.075  # inches per step and per row


@dataclass(frozen=True, eq=False)
class MemoryTrace:
    """One episode: plain arrays, time first."""

    inputs: Array  # [steps, input_size]
    targets: Array  # [steps, output_size]
    asked: NDArray[np.bool_]  # [steps]
    outputs: Array  # [steps, output_size], probabilities
    reads: Array  # [steps, read heads, cell_size]
    adds: Array  # [steps, write heads, cell_size]
    read_weights: Array  # [steps, read heads, cells]
    write_weights: Array  # [steps, write heads, cells]
    memory: Array  # [steps, cells, cell_size], after each step

    def __post_init__(self) -> None:
        lengths = {name: len(value) for name, value in vars(self).items()}
        if len(set(lengths.values())) != 1 or not len(self.inputs):
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise RegardError(f"a trace needs as many steps of everything, at least one: {told}")

    @property
    def wrong_bits(self) -> int:
        return int(((self.outputs > 0.5) != (self.targets > 0.5))[self.asked].sum())

    def told(self) -> str:
        answered = self.targets[self.asked].size
        return f"{self.wrong_bits} of {answered} answered bits are wrong"


def memory_text(trace: MemoryTrace) -> str:
    """Targets and outputs as bits for a terminal, and where each step read and wrote most."""
    asked = np.flatnonzero(trace.asked)
    lines = ["step  target / output       read  write"]
    for step in range(len(trace.inputs)):
        target, said = (_bits(side[step]) if step in asked else "" for side in (trace.targets, trace.outputs))
        read, write = (side[step].argmax(-1) for side in (trace.read_weights, trace.write_weights))
        fault = " wrong" * (target != said)
        places = f"{','.join(map(str, read)):>5}  {','.join(map(str, write)):>5}"
        lines.append(f"{step:>4}  {target:>9} {said:<9}  {places}{fault}".rstrip())
    return "\n".join(lines)


def _bits(vector: Array) -> str:
    return "".join("█" if value > 0.5 else "·" for value in vector)


def memory_figure(trace: MemoryTrace, path: str | Path | None = None, title: str | None = None) -> Figure:
    """Draw the six panels and, given a path, save them as PNG or SVG by its suffix."""
    target = None if path is None else picture_path(path)
    panels = _panels(trace)
    heights = [_ROW * max(8, *(panel.matrix.shape[1] for panel in row)) for row in panels]
    width = max(_STEP * len(trace.inputs), 2.4)
    gap, left, top, bottom = 0.42, 0.55, 0.68 if title else 0.45, 0.3
    total = left + 2 * width + gap + 0.3, top + sum(heights) + 2 * gap + bottom
    figure = Figure(figsize=total, facecolor="white")
    y = total[1] - top
    for row, height in zip(panels, heights, strict=True):
        y -= height
        for column, panel in enumerate(row):
            x = left + column * (width + gap)
            _draw(figure.add_axes((x / total[0], y / total[1], width / total[0], height / total[1])), panel)
        y -= gap
    if title:
        figure.text(
            0.15 / total[0], 1 - 0.14 / total[1], f"{title}: {trace.told()}",
            va="top", fontsize=11, color=INK, parse_math=False, family=fonts(),
        )  # fmt: skip
    if target is not None:
        save(figure, target)
    return figure


def memory_page_text(title: str, traces: Sequence[MemoryTrace]) -> str:
    """One HTML page of all episodes; it needs nothing but itself."""
    return plates_page(title, (Plate(memory_figure(each), each.told(), "The memory at work") for each in traces))


def _panels(trace: MemoryTrace) -> tuple[tuple["Panel", "Panel"], ...]:
    """What is written to the left, what comes back to the right."""
    cells = attended_cells(np.concatenate([trace.read_weights, trace.write_weights], 1))
    unasked = ~np.broadcast_to(trace.asked[:, None], trace.outputs.shape)
    largest = max(float(np.abs(trace.adds).max()), float(np.abs(trace.reads).max())) or 1.0
    signs = Normalize(min(0.0, float(trace.inputs.min())), max(1.0, float(trace.inputs.max())))
    bits, vectors, weights = Normalize(0.0, 1.0), Normalize(-largest, largest), PowerNorm(0.5, 0.0, 1.0)
    return (
        (Panel("inputs", trace.inputs, signs), Panel("outputs", np.ma.masked_array(trace.outputs, unasked), bits)),
        (Panel("adds", _joined(trace.adds), vectors), Panel("reads", _joined(trace.reads), vectors)),
        (
            Panel("write weights, by cell", _joined(trace.write_weights[..., cells]), weights, cells),
            Panel("read weights, by cell", _joined(trace.read_weights[..., cells]), weights, cells),
        ),
    )


@dataclass(frozen=True, eq=False)
class Panel:
    """One matrix [steps, rows] over time."""

    name: str
    matrix: Array
    norm: Normalize
    cells: NDArray[np.int64] | None = None  # what the rows of a single head are called


def attended_cells(weights: Array) -> NDArray[np.int64]:
    """The cells [steps, heads, cells] attends to, along the ring, beginning behind its longest unattended stretch."""
    seen = np.flatnonzero(weights.max((0, 1)) >= SEEN)
    if not len(seen):
        return np.arange(weights.shape[-1])
    gaps = np.diff(seen, append=seen[0] + weights.shape[-1])
    return np.roll(seen, -(int(gaps.argmax()) + 1))


def _draw(axes: Axes, panel: Panel) -> None:
    axes.imshow(panel.matrix.T, cmap="cividis", norm=panel.norm, aspect="auto", interpolation="nearest")
    axes.set_facecolor(MASK)
    axes.set_title(panel.name, loc="left", fontsize=8.5, color=INK, pad=3)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(labelsize=6.5, colors=MUTED, length=0, pad=2)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_yticks([])
    if panel.cells is not None:
        count = len(panel.cells)
        places = range(0, panel.matrix.shape[1], max(1, count // 6))
        axes.set_yticks(places, labels=[str(panel.cells[place % count]) for place in places])


def _joined(heads: Array) -> Array:
    """[steps, heads, size] as one matrix, head below head."""
    return heads.reshape(len(heads), -1)
