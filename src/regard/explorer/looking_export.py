"""To take away: a picture, one self-contained page, or the numbers."""

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.explorer.limits import CELLS
from regard.explorer.looking import Session
from regard.explorer.looking_asked import Export
from regard.explorer.looking_kinds import Caption, Seen
from regard.tasks.captioner import Captioner
from regard.views.caption import caption_figure, caption_page_text
from regard.views.document import document_figure, document_page_text
from regard.views.heatmap import heatmap
from regard.views.image import image_figure, image_page_text
from regard.views.look import fitting_maps
from regard.views.maps import AttentionMap, merge_words
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
    if isinstance(subject, Caption):
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
    if not session.attentions or cells > MOST_EXPORTED:
        raise UsageError(f"these are {cells:,} weights, too many for one file: choose an attention and a head")
    return [session.map(name) for name in session.attentions]


def _caption(subject: Caption) -> Any:
    loaded: Captioner = subject.loaded
    return loaded.look(subject.given.picture, tokens=subject.tokens, score=subject.score)


# Pictures


def drawn(draw: Callable[[Path], object], format: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"picture.{format}"
        draw(path)
        return path.read_bytes()


def picture(session: Session, asked: Export, path: Path) -> None:
    subject = session.subject
    if subject.document is not None:
        document_figure(subject.document, path)
    elif subject.memory is not None:
        memory_figure(subject.memory, path, title=subject.given.text)
    elif isinstance(subject, Caption) and asked.attention is None:
        caption_figure(_caption(subject), path)
    elif isinstance(subject, Seen) and asked.attention is None:
        image_figure(subject.loaded.look(subject.given.picture), path)
    else:
        known = chosen_map(session, asked)
        known = merge_words(known) if asked.unit == "words" else known
        if asked.triangle:
            # The first key is nobody's query where a text begins with it.
            reading_figure(known, path)
        else:
            heatmap(known, path=path, scale=asked.scale)


def chosen_map(session: Session, asked: Export) -> AttentionMap:
    if asked.attention is None:
        raise UsageError("say which attention is meant")
    kept = session.attention(asked.attention)
    count = (kept.heads if asked.head is None else 1) * kept.queries * kept.keys
    if count > CELLS:
        raise UsageError(f"these are {count:,} weights, too many for one picture: choose a head, or a shorter text")
    return session.map(asked.attention, asked.head)


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
    elif asked.attention is not None:
        arrays[asked.attention] = chosen_map(session, replace_unit(asked)).weights
    else:
        arrays = {name: known.weights for name, known in zip(session.attentions, maps_of(session), strict=True)}
    if asked.format == "npz":
        file = io.BytesIO()
        np.savez_compressed(file, **{name.replace("/", "."): array for name, array in arrays.items()})  # type: ignore[arg-type]
        return file.getvalue()
    told = session.told | {"weights": {name: array.tolist() for name, array in arrays.items()}}
    return json.dumps(told, ensure_ascii=False).encode("utf-8", errors="replace")


def replace_unit(asked: Export) -> Export:
    return asked.model_copy(update={"unit": "subwords"})
