"""Tagged sentences from CoNLL-U files (universaldependencies.org/format.html), one at a time.

A word is a line of ten columns between tabs: ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC. An empty
line ends a sentence, # begins a comment. Lines of a multiword token (3-4) repeat what the words below them say, empty
nodes (8.1) were never written by anybody: both are passed over. A line that is none of this is an error that names its
place; a sentence with an overlong line is left out and counted.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.parallel import read_lines
from regard.data.written import written
from regard.errors import RegardError, UsageError

COLUMNS = {"upos": 3, "xpos": 4}  # that hold tags
_WORD = re.compile(r"[1-9][0-9]{0,8}")
_NOT_A_WORD = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")


@dataclass(frozen=True)
class TaggedSentence:
    """Words, a tag for each, and where they were found."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str = ""


def read_conllu(
    path: str | Path, column: str | None = "upos", skipped: Counter[str] | None = None
) -> Iterator[TaggedSentence]:
    """Stream the sentences of a file, .gz too; without a column they have words only."""
    if column is not None and column not in COLUMNS:
        raise UsageError(f"there is no column of tags called {column!r}: choose one of {', '.join(COLUMNS)}")
    path = written(path)
    if not path.is_file():
        raise UsageError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; name a CoNLL-U file")
    return _sentences(path, column, Counter() if skipped is None else skipped)


def _sentences(path: Path, column: str | None, skipped: Counter[str]) -> Iterator[TaggedSentence]:
    words: list[str] = []
    tags: list[str] = []
    count, first, overlong = 0, 1, False

    def finished() -> Iterator[TaggedSentence]:
        nonlocal count
        if overlong:
            skipped["too long"] += 1
        elif words:
            count += 1
            yield TaggedSentence(tuple(words), tuple(tags), f"{path}, line {first}")

    for number, line in enumerate(read_lines(path), 1):
        if line is None:
            overlong = True
        elif not line.strip():
            yield from finished()
            words, tags, first, overlong = [], [], number + 1, False
        elif not line.startswith("#"):
            cells = _cells(line, len(words) + 1, f"{path}, line {number}", overlong)
            if cells is not None:
                words.append(cells[1])
                tags += [] if column is None else [_tag(cells, column, f"{path}, line {number}")]
    yield from finished()
    if count == 0:
        raise RegardError(f"{path}: no sentence in it; check that this is a CoNLL-U file")


def _cells(line: str, expected: int, place: str, overlong: bool) -> list[str] | None:
    """The columns of a word; None for a line that holds none."""
    cells = line.split("\t")
    if len(cells) != 10:
        raise RegardError(f"{place}: {len(cells)} columns between tabs instead of the 10 of CoNLL-U; mend the line")
    if _NOT_A_WORD.fullmatch(cells[0]):
        return None
    if not _WORD.fullmatch(cells[0]) or (int(cells[0]) != expected and not overlong):
        raise RegardError(f"{place}: the ID is {cells[0][:20]!r} where word {expected} of the sentence should stand")
    if not cells[1].strip():
        raise RegardError(f"{place}: word {cells[0]} has no form; mend the line")
    return cells


def _tag(cells: list[str], column: str, place: str) -> str:
    tag = cells[COLUMNS[column]].strip()
    if tag in ("", "_"):
        other = next(name for name in COLUMNS if name != column)
        raise RegardError(f"{place}: word {cells[0]} has no {column.upper()} tag; add it, or use data.column={other}")
    return tag
