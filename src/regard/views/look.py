"""A view with its words: to be saved as a page or a picture, and shown by a notebook.

`Look` holds any of the values that views draw. `Shown` is mixed into the results of verbs, so that a notebook shows
them by themselves: Jupyter, VS Code and Colab ask a value for `_repr_html_`. Pages come in a sandboxed frame of their
own, which needs no extension and no network.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.errors import UsageError
from regard.files import whole_file
from regard.views.caption import CaptionMap, caption_figure, caption_page_text, caption_terminal
from regard.views.document import DocumentMap, document_figure, document_page_text, document_terminal
from regard.views.heatmap import heads_figure, heatmap
from regard.views.image import ImageMap, image_figure, image_page_text, image_terminal
from regard.views.maps import AttentionMap, mean_heads, merge_words
from regard.views.match import MatchMap, match_figure, match_page_text, match_terminal
from regard.views.memory import MemoryTrace, memory_figure, memory_page_text, memory_text
from regard.views.page import Example, page_text
from regard.views.reading import reading_figure
from regard.views.terminal import terminal

Maps = tuple[AttentionMap, ...]
View = Maps | DocumentMap | CaptionMap | ImageMap | MatchMap | MemoryTrace

MOST_WEIGHTS = 6_000_000  # in a notebook's cell: 16 MB, since a weight takes two bytes and base64 a third more
MOST_LINES = 60  # of the figure that shows a text read word by word; a longer text is a map
HEIGHT = 760  # pixels of the page with every head


class _Drawn(NamedTuple):
    """How one kind of view is drawn."""

    page: Callable[[str, list[Any]], str]
    figure: Callable[[Any, Path], object]
    terminal: Callable[[Any, bool], str]
    said: Callable[[Any], str]
    height: int
    weights: Callable[[Any], dict[str, np.ndarray]]


_DRAWN: dict[type, _Drawn] = {
    DocumentMap: _Drawn(
        document_page_text,
        document_figure,
        lambda view, colour: document_terminal(view, colour=colour),
        lambda view: view.verdict,
        480,
        lambda view: {
            "sentences": view.sentence_weights,
            **{f"words of sentence {number}": row for number, row in enumerate(view.word_weights, 1)},
        },
    ),
    CaptionMap: _Drawn(
        caption_page_text,
        caption_figure,
        lambda view, colour: caption_terminal(view),
        lambda view: view.text,
        560,
        lambda view: {"regions": view.weights},
    ),
    ImageMap: _Drawn(
        image_page_text,
        image_figure,
        image_terminal,
        lambda view: view.verdict,
        560,
        lambda view: {"class token": view.weights, "rollout": view.rollout},
    ),
    MatchMap: _Drawn(
        match_page_text,
        match_figure,
        lambda view, colour: match_terminal(view),
        lambda view: view.heading,
        420,
        lambda view: {"examples": view.weights},
    ),
    MemoryTrace: _Drawn(
        memory_page_text,
        memory_figure,
        lambda view, colour: memory_text(view),
        MemoryTrace.told,
        640,
        lambda view: {"read": view.read_weights, "write": view.write_weights},
    ),
}


@dataclass(frozen=True, eq=False)
class Look:
    """What was looked at, with the words it belongs to."""

    title: str
    view: View
    source: str = ""
    """The text that was read,"""
    target: str | None = None
    """and the one that was said, if there is one."""
    score: float | None = None
    by_head: bool = False
    """Whether a picture shows head beside head, and not their mean."""

    def __post_init__(self) -> None:
        if isinstance(self.view, tuple) and not self.view:
            raise UsageError(f"there is no attention to look at in {self.title[:60]!r}: choose other layers")

    @property
    def maps(self) -> Maps:
        """Those between tokens; none of any other view."""
        return self.view if isinstance(self.view, tuple) else ()

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """By name; those between tokens are [heads, queries, keys]."""
        if isinstance(self.view, tuple):
            return {attention.name: attention.weights for attention in self.view}
        return _DRAWN[type(self.view)].weights(self.view)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Of the text that was read, or the words of a document or caption."""
        if isinstance(self.view, tuple):
            return next((known.keys for known in self.view if known.kind != "decoder"), self.view[0].keys)
        if isinstance(self.view, DocumentMap):
            return tuple(self.view.text[start:end] for spans in self.view.sentences for start, end in spans)
        return self.view.words if isinstance(self.view, CaptionMap) else ()

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """Of the text that was said by a model that reads one text and says another; else the same."""
        if isinstance(self.view, tuple):
            return next((known.queries for known in self.view if known.kind == "cross"), self.tokens)
        return self.tokens

    def page(self) -> str:
        """One self-contained HTML page."""
        return page_of(self.title, [self])

    def example(self) -> Example:
        """Of maps, as a page shows them."""
        said = self.source if self.target is None else self.target
        return Example(self.source, said, maps=self.maps, score=self.score)

    def save(self, path: str | Path) -> Path:
        """Write the page (.html) or a picture (.svg, .png); of maps, the picture is of the last layer, by words."""
        path = Path(path)
        if path.suffix.lower() == ".html":
            save_page(self.title, [self], path)
        elif path.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"cannot save {path.name!r}: a page is called .html, a picture .svg or .png")
        elif isinstance(self.view, tuple):
            last = self._last(self.view)
            reads_on = last.causal and len(last.queries) <= MOST_LINES
            (heads_figure if self.by_head else reading_figure if reads_on else heatmap)(last, path=path)
        else:
            _DRAWN[type(self.view)].figure(self.view, path)
        return path

    @property
    def said(self) -> str:
        """What the model said of it, if it says anything."""
        return (self.target or "") if isinstance(self.view, tuple) else _DRAWN[type(self.view)].said(self.view)

    def terminal(self, *, colour: bool = False) -> str:
        """As much as characters can show; of maps, the last layer, by words."""
        if isinstance(self.view, tuple):
            return terminal(self._last(self.view), colour=colour)
        return _DRAWN[type(self.view)].terminal(self.view, colour)

    @staticmethod
    def _last(maps: Maps) -> AttentionMap:
        crossing = [known for known in maps if known.kind == "cross"]
        return merge_words((crossing or maps)[-1])

    def _repr_html_(self) -> str:
        """What a notebook shows: the page, in a frame of its own."""
        if not isinstance(self.view, tuple):
            return frame(self.page(), _DRAWN[type(self.view)].height)
        fitting = fitting_maps(self.view)
        if fitting is None:
            longest = max(max(known.weights.shape[1:]) for known in self.view)
            return paragraph(
                f"{self.title[:200]} … {longest:,} tokens are more than a cell can show: save(...) a picture"
            )
        return frame(replace(self, view=fitting).page(), HEIGHT)


def page_of(title: str, looks: Sequence[Look]) -> str:
    """One self-contained HTML page of looks of one kind."""
    if looks[0].maps:
        return page_text(title, [look.example() for look in looks])
    return _DRAWN[type(looks[0].view)].page(title, [look.view for look in looks])


def save_page(title: str, looks: Sequence[Look], path: str | Path) -> None:
    if not looks:
        raise UsageError(f"cannot write {Path(path).name!r}: a page needs at least one look")
    with whole_file(Path(path)) as file:
        file.write(page_of(title, looks).encode("utf-8", errors="replace"))


class Shown:
    """A result that a notebook shows: the look at its attention, or, if there is none, what it says."""

    def told(self) -> str:
        """What the result says, in plain text."""
        raise NotImplementedError

    def look(self) -> Look | None:
        """Its attention with its words; None if there is nothing to look at."""
        raise NotImplementedError

    def heading(self) -> str:
        """HTML to stand above the look."""
        return ""

    def _repr_html_(self) -> str:
        try:
            look = self.look()
        except UsageError:  # a model without attention, or a text too long for one look: it is still told
            look = None
        heading = self.heading()
        return heading + look._repr_html_() if look is not None else heading or paragraph(self.told())


def fitting_maps(maps: Maps, most: int = MOST_WEIGHTS) -> Maps | None:
    """As much as a notebook can hold: every head, or else the mean of each layer's, or else of the last layers' alone.

    None if even that is too much.
    """
    means = tuple(
        replace(mean_heads(known), name=f"{known.name}, mean of {len(known.weights)} heads")
        if len(known.weights) > 1 else known
        for known in maps
    )  # fmt: skip
    last = {known.kind: known for known in means}
    for fewer in (maps, means, tuple(last.values())):
        if sum(known.weights.size for known in fewer) <= most:
            return fewer
    return None


def frame(page: str, height: int) -> str:
    """A page inside another: its scripts may run, and reach nothing but the page itself."""
    return (
        f'<iframe sandbox="allow-scripts" width="100%" height="{height}" style="border: 0" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
