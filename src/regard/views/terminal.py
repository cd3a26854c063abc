"""A heat map made of characters, for a terminal: two columns of shade per key, key labels written downwards.

A shade stands for the square root of the weight over the largest one, so the long tail stays visible. Each row ends
with its strongest key and the raw weight. Wide East Asian characters take the two columns a key has.
"""

import unicodedata

import numpy as np

from regard.views.colours import cividis
from regard.views.maps import AttentionMap, display, mean_heads

SHADES = "  ", "░░", "▒▒", "▓▓", "██"
MASKED = "··"
CELL = 2
_LONGEST_ROW, _LONGEST_COLUMN = 16, 10


def terminal(attention: AttentionMap, *, colour: bool = False, width: int = 100) -> str:
    """The mean of the map's heads as lines of text; with `colour`, as 24-bit ANSI backgrounds.

    Keys that do not fit into `width` columns continue in a further block.
    """
    matrix, masked = mean_heads(attention).weights[0], attention.masked
    rows = [_fit(display(token), _LONGEST_ROW) for token in attention.queries]
    keys = [display(token) for token in attention.keys]
    margin = max(columns(row) for row in rows)
    best = matrix.argmax(axis=1)
    notes = [f"{_fit(keys[key], _LONGEST_ROW)} {matrix[row, key]:.2f}" for row, key in enumerate(best)]
    room = width - margin - 4 - max(columns(note) for note in notes)
    per_block = max(1, room // CELL)
    top = float(matrix.max()) or 1.0

    heads = attention.weights.shape[0]
    lines = [_line(attention.name) + ("" if heads == 1 else f", mean of {heads} heads")]
    for start in range(0, len(keys), per_block):
        block = slice(start, min(start + per_block, len(keys)))
        lines.append("")
        lines += [" " * (margin + 2) + line for line in _downwards(keys[block])]
        for row, label in enumerate(rows):
            shades = [_shade(value / top, colour) for value in matrix[row, block]]
            cells = [MASKED if hidden else shade for hidden, shade in zip(masked[row, block], shades, strict=True)]
            note = f" {notes[row]}" if best[row] in range(block.start, block.stop) else ""
            lines.append(" " * (margin - columns(label)) + f"{label} │{''.join(cells)}│{note}".rstrip())
    lines += ["", _legend(top, colour) + (f"   {MASKED} masked" if attention.causal else "")]
    return "\n".join(lines) + "\n"


def columns(text: str) -> int:
    """How many terminal columns a text takes."""
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clusters(text: str) -> list[str]:
    """Characters with the marks that sit on them."""
    clusters: list[str] = []
    for character in text:
        if clusters and _columns_of(character) == 0:
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def _fit(text: str, most: int) -> str:
    if columns(text) <= most:
        return text
    kept = ""
    for cluster in _clusters(text):
        if columns(kept + cluster) > most - 1:
            break
        kept += cluster
    return kept + "…"


def _line(text: str) -> str:
    return "".join(display(character) if character != " " else " " for character in text)


def _downwards(labels: list[str]) -> list[str]:
    """Key labels from top to bottom, standing on the matrix."""
    stacks = [_clusters(label) for label in labels]
    stacks = [stack if len(stack) <= _LONGEST_COLUMN else [*stack[: _LONGEST_COLUMN - 1], "⋮"] for stack in stacks]
    height = max(len(stack) for stack in stacks)
    lines = []
    for line in range(height):
        characters = (stack[line - height] if len(stack) >= height - line else " " for stack in stacks)
        lines.append("".join(text + " " * (CELL - columns(text)) for text in characters).rstrip())
    return lines


def _shade(share: float, colour: bool) -> str:
    level = float(np.sqrt(np.clip(share, 0.0, 1.0)))
    if colour:
        red, green, blue = cividis(level)
        return f"\x1b[48;2;{red};{green};{blue}m{' ' * CELL}\x1b[0m"
    return SHADES[min(int(level * len(SHADES)), len(SHADES) - 1)]


def _legend(top: float, colour: bool) -> str:
    steps = [(step / (len(SHADES) - 1)) ** 2 if colour else (step / len(SHADES)) ** 2 for step in range(len(SHADES))]
    bound = "" if colour else "≥"
    return "weight  " + "  ".join(f"{_shade(step + 1e-9, colour)} {bound}{step * top:.2g}" for step in steps)
