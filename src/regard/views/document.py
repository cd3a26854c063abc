"""A classified document with its attention at both levels, as in figure 5 of Yang et al. 2016.

The margin beside a sentence is shaded by the sentence's weight p_s, in one colour; each word by sqrt(p_s) p_w, in
another, so that only the important words of important sentences stand out. Shades are relative to the strongest of the
document; numbers are raw weights. Three forms: an HTML page of its own, a picture, and lines for a terminal.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import RegardError
from regard.views.paper import INK, MUTED, picture_path, save

Span = tuple[int, int]

SENTENCE, WORD = (213, 94, 0), (0, 114, 178)  # vermilion and blue: told apart by readers of any colour vision
MOST_DRAWN = 60  # sentences of a picture
_BAR = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, eq=False)
class DocumentMap:
    """A text, where its words stand, and the weights they and their sentences got."""

    text: str
    sentences: tuple[tuple[Span, ...], ...]
    """For each sentence where each of its words begins and ends in the text."""
    sentence_weights: np.ndarray
    """[sentences]"""
    word_weights: tuple[np.ndarray, ...]
    """For each sentence [words]: the weights within the sentence."""
    label: str
    probability: float
    """Of the label."""

    def __post_init__(self) -> None:
        counts = [len(spans) for spans in self.sentences]
        if not counts or 0 in counts:
            raise RegardError("a document to be drawn has at least one sentence, and each of them a word")
        if len(self.sentence_weights) != len(counts) or [len(row) for row in self.word_weights] != counts:
            raise RegardError(
                f"a document of {len(counts)} sentences has {len(self.sentence_weights)} sentence weights and words "
                "that do not fit their weights"
            )

    def sentence_shades(self) -> np.ndarray:
        """From 0 to 1: p_s over the largest."""
        weights = np.asarray(self.sentence_weights, dtype=np.float64)
        return weights / (weights.max() or 1.0)

    def word_shades(self) -> list[np.ndarray]:
        """From 0 to 1: sqrt(p_s) p_w over the largest."""
        shades = [np.sqrt(p) * np.asarray(row) for p, row in zip(self.sentence_weights, self.word_weights, strict=True)]
        top = max(float(row.max()) for row in shades) or 1.0
        return [row / top for row in shades]

    def pieces(self, number: int) -> Iterator[tuple[str, int | None]]:
        """A sentence as it was written: its words with their numbers, and what stands between them with None."""
        end = self.sentences[number][0][0]
        for word, (start, stop) in enumerate(self.sentences[number]):
            if start > end:
                yield self.text[end:start], None
            yield self.text[start:stop], word
            end = stop

    @property
    def verdict(self) -> str:
        return f"{self.label} ({self.probability:.1%})"


# ---- the page ----


def document_page_text(title: str, documents: Sequence[DocumentMap]) -> str:
    """The page as a string: nothing to fetch, and its content security policy forbids it to try."""
    parts = {"title": html.escape(title), "documents": "\n".join(_article(document) for document in documents)}
    # One pass, so that nothing inserted is ever searched for further places.
    return re.sub(r"\{\{(title|documents)\}\}", lambda found: parts[found[1]], _PAGE)


def _article(document: DocumentMap) -> str:
    words, sentences = document.word_shades(), document.sentence_shades()
    rows = [
        f'<li style="--s:{sentences[number]:.3f}"><b title="weight of this sentence">'
        f"{document.sentence_weights[number]:.3f}</b><p dir=auto>"
        + "".join(_piece(text, word, document, words, number) for text, word in document.pieces(number))
        + "</p></li>"
        for number in range(len(document.sentences))
    ]
    heading = f"<h2 dir=auto>{html.escape(document.label)} <small>{document.probability:.1%}</small></h2>"
    return f"<article>{heading}<ol>\n" + "\n".join(rows) + "\n</ol></article>"


def _piece(text: str, word: int | None, document: DocumentMap, shades: list[np.ndarray], number: int) -> str:
    if word is None:
        return html.escape(text)
    weight, shade = document.word_weights[number][word], shades[number][word]
    if shade < 0.01:
        return html.escape(text)
    return f'<span style="--w:{shade:.2f}" title="{weight:.3f} of its sentence">{html.escape(text)}</span>'


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{title}}</title>
<link rel="icon" href="data:,">
<style>
:root { --paper: #f7f5f0; --panel: #fffefb; --ink: #1c2533; --muted: #5d6675; --rule: #e3dfd5;
  --sentence: 213 94 0; --word: 0 114 178; --strength: 0.55; color-scheme: light; }
:root[data-theme="dark"] { --paper: #0d1219; --panel: #141b25; --ink: #e7eaf0; --muted: #98a3b3; --rule: #263140;
  --sentence: 240 130 50; --word: 60 160 230; --strength: 0.65; color-scheme: dark; }
* { box-sizing: border-box; }
html { background: var(--paper); }
body { margin: 0 auto; max-width: 860px; padding: clamp(16px, 3vw, 40px); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header { display: flex; justify-content: space-between; align-items: flex-start; gap: 24px; }
h1, h2 { font: 500 24px/1.2 ui-serif, Palatino, Georgia, serif; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 19px; } h2 small { color: var(--muted); font-size: 14px; }
button { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--rule); border-radius: 8px;
  padding: 6px 12px; cursor: pointer; }
.legend { color: var(--muted); font-size: 13px; margin: 8px 0 24px; }
.legend i { display: inline-block; width: 1em; height: 1em; border-radius: 3px; vertical-align: -0.15em; }
.legend .s { background: rgb(var(--sentence)); } .legend .w { background: rgb(var(--word) / var(--strength)); }
article { background: var(--panel); border: 1px solid var(--rule); border-radius: 12px; padding: 20px; margin: 0 0 20px; }
ol { list-style: none; margin: 12px 0 0; padding: 0; }
li { display: grid; grid-template-columns: 4.6em 1fr; gap: 12px; align-items: stretch; }
li b { font: 12px/1.9 ui-monospace, Menlo, Consolas, monospace; color: var(--muted); text-align: right;
  padding-right: 8px; border-right: 10px solid rgb(var(--sentence) / var(--s)); }
li p { margin: 0; padding: 1px 0; font: 17px/1.6 ui-serif, "Iowan Old Style", Palatino, Georgia, serif;
  overflow-wrap: anywhere; min-width: 0; }
span { background: rgb(var(--word) / calc(var(--w) * var(--strength))); border-radius: 3px; }
</style>
</head>
<body>
<header><h1 dir="auto">{{title}}</h1><button type="button" id="theme">Dark</button></header>
<p class="legend"><i class="s"></i> weight of the sentence in the document &nbsp; <i class="w"></i> weight of the word in
its sentence, times the square root of the sentence's</p>
<main>
{{documents}}
</main>
<script>
"use strict";
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const set = (dark) => { root.dataset.theme = dark ? "dark" : "light"; button.textContent = dark ? "Light" : "Dark"; };
  set(matchMedia("(prefers-color-scheme: dark)").matches);
  button.addEventListener("click", () => set(root.dataset.theme !== "dark"));
})();
</script>
</body>
</html>
"""  # noqa: E501


# ---- the picture ----


def document_figure(document: DocumentMap, path: str | Path | None = None, *, columns: int = 90) -> Figure:
    """Draw the document and, given a path, save it as PNG or SVG; of a very long one the weightiest sentences."""
    target = None if path is None else picture_path(path)
    chosen = _weightiest(document, MOST_DRAWN)
    lines = [(number, line) for number in chosen for line in _wrapped(document, number, columns)]
    font, step = 10.0, 0.25
    wide = font * 0.602 / 72  # DejaVu Sans Mono: every character is 0.602 em wide
    width, height = 1.0 + columns * wide + 0.2, 0.75 + step * len(lines)
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    hidden = len(document.sentences) - len(chosen)
    note = f"   the {len(chosen)} weightiest of {len(document.sentences)} sentences" if hidden else ""
    axes.text(0.15, 0.32, _printable(document.verdict) + note, fontsize=12, color=INK, parse_math=False)
    sentences, words = document.sentence_shades(), document.word_shades()
    previous = None
    for row, (number, line) in enumerate(lines):
        y = 0.62 + row * step
        axes.add_patch(Rectangle((0.68, y), 0.14, step, facecolor=_rgba(SENTENCE, sentences[number]), linewidth=0))
        if number != previous:
            weight = f"{document.sentence_weights[number]:.3f}"
            axes.text(0.6, y + step * 0.68, weight, fontsize=7.5, color=MUTED, ha="right", family="DejaVu Sans Mono")
        previous = number
        for start, text, word in line:
            x = 0.95 + start * wide
            if word is not None and words[number][word] >= 0.01:
                shade = _rgba(WORD, 0.6 * words[number][word])
                axes.add_patch(Rectangle((x, y + 0.02), len(text) * wide, step - 0.04, facecolor=shade, linewidth=0))
            axes.text(x, y + step * 0.7, text, fontsize=font, color=INK, parse_math=False, family="DejaVu Sans Mono")
    if target is not None:
        save(figure, target)
    return figure


def _weightiest(document: DocumentMap, most: int) -> list[int]:
    """The numbers of the sentences with the largest weights, in reading order."""
    order = np.argsort(-np.asarray(document.sentence_weights), kind="stable")
    return sorted(order[:most].tolist())


def _wrapped(document: DocumentMap, number: int, columns: int) -> list[list[tuple[int, str, int | None]]]:
    """A sentence in lines of pieces, each with its column; blanks between words are one blank."""
    lines: list[list[tuple[int, str, int | None]]] = [[]]
    column = 0
    for text, word in document.pieces(number):
        if word is None and not text.strip():
            column += 1
            continue
        shown = _printable(text)[:columns]
        if column and column + len(shown) > columns:
            lines.append([])
            column = 0
        lines[-1].append((column, shown, word))
        column += len(shown)
    return lines


def _printable(text: str) -> str:
    """Without what would move a cursor or turn the reading direction."""
    return "".join(character if character.isprintable() else "·" for character in text)


def _rgba(colour: tuple[int, int, int], strength: float) -> tuple[float, float, float, float]:
    red, green, blue = (channel / 255 for channel in colour)
    return red, green, blue, float(np.clip(strength, 0.0, 1.0))


# ---- the terminal ----


def document_terminal(document: DocumentMap, *, colour: bool = False, most: int = 5, width: int = 100) -> str:
    """The weightiest sentences in reading order, each with its weight and its words: shaded with `colour`, otherwise
    the strongest in [brackets]."""
    sentences, words = document.sentence_shades(), document.word_shades()
    lines = []
    for number in _weightiest(document, most):
        bar = _BAR[min(int(sentences[number] * len(_BAR)), len(_BAR) - 1)]
        margin = f"{document.sentence_weights[number]:.3f} {_ansi(bar, SENTENCE, 1.0, ink=True) if colour else bar} "
        for count, line in enumerate(_wrapped(document, number, max(20, width - 8))):
            shown, end = "", 0
            for start, text, word in line:
                shade = 0.0 if word is None else float(words[number][word])
                shown += " " * (start - end) + (_ansi(text, WORD, shade) if colour else _bracketed(text, shade))
                end = start + len(text)
            lines.append((margin if count == 0 else " " * 8) + shown)
    hidden = len(document.sentences) - min(most, len(document.sentences))
    lines += [f"        ... {hidden} sentence{'s' * (hidden != 1)} of less weight"] if hidden else []
    return "\n".join(lines) + "\n"


def _bracketed(text: str, shade: float) -> str:
    return f"[{text}]" if shade >= 0.25 else text


def _ansi(text: str, colour: tuple[int, int, int], shade: float, ink: bool = False) -> str:
    if shade < 0.05:
        return text
    if ink:
        return f"\x1b[38;2;{colour[0]};{colour[1]};{colour[2]}m{text}\x1b[0m"
    # Towards white from the full colour; dark letters on all of it.
    red, green, blue = (round(255 - (255 - channel) * 0.7 * shade) for channel in colour)
    return f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;20;25;35m{text}\x1b[0m"
