"""To take away: a picture, one self-contained page, or the numbers."""

import io
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.explorer.kept import KeptAttention
from regard.explorer.limits import CELLS
from regard.explorer.looking import KIND_TITLES, Session
from regard.explorer.looking_asked import Export
from regard.explorer.looking_kinds import Caption, Seen
from regard.explorer.looking_through import TITLES, through
from regard.tasks.captioner import Captioner
from regard.views.caption import caption_figure, caption_page_text
from regard.views.document import document_figure, document_page_text
from regard.views.heatmap import heatmap
from regard.views.image import image_figure, image_page_text
from regard.views.look import fitting_maps
from regard.views.maps import AttentionMap, merge_words
from regard.views.match import match_figure, match_page_text
from regard.views.memory import memory_figure, memory_page_text
from regard.views.page import Example, page_text
from regard.views.reading import reading_figure

MEDIA = {
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "npz": "application/zip",
}
MOST_EXPORTED = 16 * CELLS  # weights of a file
MOST_TOLD = 4 * CELLS  # weights of a file in which numbers are words
MOST_DRAWN = 1024  # cells along a side of a picture
DRAWING = threading.Lock()  # matplotlib's settings and the filters of warnings belong to all threads


def export(session: Session, asked: Export) -> bytes:
    if asked.format == "html":
        return page(session).encode("utf-8", errors="replace")
    if asked.format in ("svg", "png"):
        return drawn(lambda path: picture(session, asked, path), asked.format)
    return numbers(session, asked)


def title_of(session: Session) -> str:
    given, said = session.subject.given.text, session.subject.said
    return " → ".join(part for part in (given, said) if part)[:200] or session.name


# Pages


def page(session: Session) -> str:
    """The whole example as one file that needs nothing else."""
    subject, title = session.subject, title_of(session)
    if subject.document is not None:
        return document_page_text(title, [subject.document])
    if subject.memory is not None:
        return memory_page_text(title, [subject.memory])
    if subject.match is not None:
        return match_page_text(title, [subject.match])
    if isinstance(subject, Caption) and subject.tokens:  # a caption without a word is no picture of words
        return caption_page_text(title, [_caption(subject)])
    if isinstance(subject, Seen):
        return image_page_text(title, [subject.loaded.look(subject.given.picture)])
    maps = fitting_maps(tuple(maps_of(session)))
    if maps is None:
        raise UsageError("this text is too long for one page: take a picture or the numbers of a head")
    return page_text(
        title, [Example(subject.given.text, subject.said or subject.given.text, None, maps, subject.score)]
    )


def maps_of(session: Session) -> list[AttentionMap]:
    cells = sum(each.heads * each.queries * each.keys for each in session.attentions.values())
    if not session.attentions:
        raise UsageError("this model pays no attention: there is nothing to take away")
    if cells > MOST_EXPORTED:
        raise UsageError(f"these are {cells:,} weights, too many for one file: choose an attention and a head")
    return [session.map(name) for name in session.attentions]


def _caption(subject: Caption) -> Any:
    loaded: Captioner = subject.loaded
    return loaded.look(subject.given.picture, tokens=subject.tokens, score=subject.score)


# Pictures


def drawn(draw: Callable[[Path], object], format: str) -> bytes:
    with DRAWING, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"picture.{format}"
        draw(path)
        return path.read_bytes()


def picture(session: Session, asked: Export, path: Path) -> None:
    subject, is_whole = session.subject, asked.attention is None and asked.how is None
    if subject.document is not None:
        document_figure(subject.document, path)
    elif subject.memory is not None:
        memory_figure(subject.memory, path, title=subject.given.text)
    elif subject.match is not None:
        match_figure(subject.match, path)
    elif isinstance(subject, Caption) and subject.tokens and is_whole:
        caption_figure(_caption(subject), path)
    elif isinstance(subject, Seen) and is_whole:
        image_figure(subject.loaded.look(subject.given.picture), path)
    else:
        known = map_through(session, asked) if asked.how is not None else chosen_map(session, asked)
        known = merge_words(known) if asked.unit == "words" else known
        if asked.triangle:
            # The first key is nobody's query where a text begins with it.
            reading_figure(known, path)
        else:
            heatmap(known, path=path, scale=asked.scale)


def map_through(session: Session, asked: Export) -> AttentionMap:
    """All layers of one kind at once."""
    last = {session.subject.kind_of(name): name for name in session.attentions}
    if asked.kind not in last or asked.how is None:
        raise UsageError(f"there is no attention of the kind {asked.kind!r}; there are: {', '.join(last)}")
    weights = through(session, asked.kind, asked.how)
    return session.labelled(last[asked.kind], weights[None], f"{KIND_TITLES[asked.kind]}, {TITLES[asked.how]}")


def chosen_map(session: Session, asked: Export) -> AttentionMap:
    """One head, or the mean of a layer's heads; of a long text a cell is the largest of many weights."""
    if not session.attentions:
        raise UsageError("this model pays no attention: there is nothing to draw")
    name = asked.attention or list(session.attentions)[-1]
    kept = session.attention(name)
    if max(kept.queries, kept.keys) > MOST_DRAWN:
        return coarse_map(session, name, kept, asked.head or 0)
    heads = range(kept.heads) if asked.head is None else [asked.head]
    weights = sum(kept.rows(range(kept.queries), head) for head in heads) / len(heads)
    title = session.title(name, asked.head)
    return session.labelled(
        name, np.asarray(weights), title if len(heads) == 1 else f"{title}, mean of {len(heads)} heads"
    )


def coarse_map(session: Session, name: str, kept: KeptAttention, head: int) -> AttentionMap:
    """As many cells as a picture can hold, named by the numbers of their first tokens."""
    side = -(-max(kept.queries, kept.keys) // MOST_DRAWN)
    weights = kept.coarse(head, side)
    rows, columns = (tuple(range(count)) for count in weights.shape)
    visible = session.sides_of(name).visible
    return AttentionMap(
        name=f"{session.title(name, head)}, each cell the largest of {side} × {side} weights",
        kind=session.subject.kind_of(name),
        layer=session.subject.layer_of(name),
        weights=weights[None],
        queries=tuple(str(side * row + 1) for row in rows),
        keys=tuple(str(side * column + 1) for column in columns),
        query_words=rows,
        key_words=columns,
        causal=visible is not None,
        visible=None
        if visible is None
        else tuple(-(-visible[min(side * row + side, len(visible)) - 1] // side) for row in rows),
    )


# Numbers


def numbers(session: Session, asked: Export) -> bytes:
    """The weights of one attention, or of all: arrays by name, with their tokens."""
    subject = session.subject
    arrays: dict[str, np.ndarray] = {}
    if subject.document is not None:
        arrays["sentences"] = np.asarray(subject.document.sentence_weights)
        for number, row in enumerate(subject.document.word_weights, 1):
            arrays[f"words of sentence {number}"] = np.asarray(row)
    elif subject.memory is not None:
        arrays = dict(vars(subject.memory))
    elif subject.match is not None:
        arrays["examples"] = subject.match.weights
    elif asked.how is not None:
        arrays[TITLES[asked.how]] = map_through(session, asked).weights[0]
    elif asked.attention is not None:
        arrays[asked.attention] = chosen_weights(session, asked)
    else:
        arrays = {name: known.weights for name, known in zip(session.attentions, maps_of(session), strict=True)}
    if asked.format == "npz":
        file = io.BytesIO()
        np.savez_compressed(file, **{name.replace("/", "."): array for name, array in arrays.items()})  # type: ignore[arg-type]
        return file.getvalue()
    if sum(array.size for array in arrays.values()) > MOST_TOLD:
        raise UsageError(f"these are more than {MOST_TOLD:,} weights, too many for JSON: take them as NPZ")
    told = session.told | {"weights": {name: array.tolist() for name, array in arrays.items()}}
    return json.dumps(told, ensure_ascii=False).encode("utf-8", errors="replace")


def chosen_weights(session: Session, asked: Export) -> np.ndarray:
    """[heads, queries, keys] of one attention, of one head or of all."""
    kept = session.attention(asked.attention or "")
    count = (kept.heads if asked.head is None else 1) * kept.queries * kept.keys
    if count > MOST_EXPORTED:
        raise UsageError(f"these are {count:,} weights, too many for one file: choose a head, or a shorter text")
    return kept.rows(range(kept.queries), asked.head)
