"""Pictures and what people said of them: tables of (file, caption), one caption a row, several rows a picture.

    photos/captions.tsv      file<TAB>caption, with that header; or .jsonl, .csv, .parquet with these columns
    photos/dog.jpg ...       files are looked for beside the table, or in `images`

A caption is kept as its words: lower-case, without punctuation, as captions are scored everywhere.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.images import Pixels, Preprocessing
from regard.data.labelled import read_rows
from regard.data.written import written
from regard.errors import RegardError, UsageError, listed, shortened

WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
LARGEST_FILE = 1 << 28  # bytes; no picture that can be decoded is larger
LONGEST_CAPTION = 10_000  # characters


@dataclass(frozen=True)
class CaptionedImage:
    """One picture: its name, its captions, how to get the bytes of its file, and their SHA-256 if it is stored."""

    name: str
    captions: tuple[str, ...]
    read: Callable[[], bytes] = field(repr=False)
    stored_fingerprint: bytes | None = field(default=None, repr=False)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of the bytes; all files that cannot be read have the same fingerprint."""
        if self.stored_fingerprint is not None:
            return self.stored_fingerprint
        try:
            return digest(self.read())
        except RegardError:
            return b"missing"

    def pixels(self, preprocessing: Preprocessing) -> Pixels:
        """Decoded, as the model reads it."""
        content = self.read()
        try:
            return preprocessing.pixels(content)
        except RegardError as error:
            raise RegardError(str(error).replace("the picture", self.name, 1)) from error


def readable_pictures(
    pictures: Sequence[CaptionedImage],
    preprocessing: Preprocessing,
    say: Callable[[str], object] = lambda line: None,
) -> Iterator[tuple[int, Pixels]]:
    """The numbers and the bytes of those that can be read; `say` hears of the others."""
    for number, picture in enumerate(pictures):
        try:
            yield number, picture.pixels(preprocessing)
        except RegardError as error:
            say(f"left out: {error}")


def plain(caption: str) -> str:
    """The words of a caption: `A dog 's ball , red .` is `a dog s ball red`."""
    return " ".join(WORD.findall(caption.lower()))


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def read_captions(
    table: str | Path,
    *,
    images: str | Path | None = None,
    file_column: str = "file",
    caption_column: str = "caption",
    skipped: Counter[str] | None = None,
) -> Iterator[CaptionedImage]:
    """The pictures of a table in the order of their first rows; a wrong request is an error at once."""
    rows = read_rows(table, skipped)
    folder = written(table).parent if images is None else written(images)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of pictures; give data.images")

    def cells() -> Iterator[tuple[str, str]]:
        for place, columns in rows:
            for column in (file_column, caption_column):
                if not isinstance(columns.get(column), str):
                    raise UsageError(
                        f"{place}: no text in the column {column!r}; the columns are {listed(columns, 12)}"
                    )
            yield _inside(columns[file_column], place), columns[caption_column]

    return grouped(cells(), lambda name: lambda: file_bytes(folder / name), str(table), skipped)


def _inside(name: str, place: str) -> str:
    """A name that stays in the folder of the pictures: a table must not say which other files are read."""
    parts = re.split(r"[/\\]", name)
    leads_out = ".." in parts or parts[0] == "" or re.match("[A-Za-z]:", name)
    if leads_out or not name.isprintable():
        raise UsageError(f"{place}: {shortened(name)} is not the name of a file in the folder of the pictures")
    return name


def grouped(
    rows: Iterable[tuple[str, str]],
    reader: Callable[[str], Callable[[], bytes]],
    place: str,
    skipped: Counter[str] | None = None,
) -> Iterator[CaptionedImage]:
    """Rows (file, caption) as pictures with all their captions; captions without a word are left out and counted."""
    skipped = Counter() if skipped is None else skipped
    captions: dict[str, list[str]] = {}
    for name, caption in rows:
        words = plain(caption) if len(caption) <= LONGEST_CAPTION else ""
        if words:
            captions.setdefault(name, []).append(words)
        else:
            skipped["captions without words" if len(caption) <= LONGEST_CAPTION else "captions too long"] += 1
    if not captions:
        raise RegardError(f"{place}: no usable caption; check that this is the right file")
    for name, known in captions.items():
        yield CaptionedImage(name, tuple(known), reader(name))


def file_bytes(path: Path) -> bytes:
    """The content of a picture's file."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RegardError(f"{path}: is larger than {LARGEST_FILE >> 20} MB; make it smaller")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name may hold what no name may hold
        raise RegardError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
