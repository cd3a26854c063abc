"""A corpus cut into numbered parts, and which of them are done.

Where the cuts are depends on the files and on the number of rows, and on nothing else: not on the engine, not on the
number of actors. Part 12 becomes part-000012.parquet. Its footer says what it was made of and how, and that is all a
restart needs to know: a part is done if its file is whole and was made so. Whoever does it twice writes the same file.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from regard.bulk.files import find, place, readable, shown
from regard.errors import UsageError, listed

FOOTERS_AT_ONCE = 16  # read side by side: elsewhere than here each takes a while
KEY = b"regard"  # of the footer
NAME = re.compile(r"part-(\d{6,})\.parquet")


@dataclass(frozen=True)
class Part:
    """Some rows of one file."""

    number: int
    url: str
    first: int  # of its rows in the file
    count: int
    start: int  # rows of the corpus before it
    file: dict[str, Any]  # what tells the file from another

    @property
    def name(self) -> str:
        return f"part-{self.number:06}.parquet"

    def identity(self) -> dict[str, Any]:
        return {**self.file, "first": self.first, "count": self.count}


@dataclass(frozen=True)
class Done:
    """What became of a part."""

    number: int
    rows: int
    without: dict[str, int] = field(default_factory=dict)  # rows without a result, by reason
    refused: str = ""  # what was said of the first row that the model refused


def cut(source: str, needed: Sequence[str], new: Sequence[str], rows: int) -> list[Part]:
    """The parts of all files, of at most so many rows; each must have the columns needed and room for the new ones."""
    if rows < 1:
        raise UsageError(f"parts of {rows} rows are asked for; ask for at least 1")
    files = find(source)
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        seen = list(pool.map(lambda file: look(file[0], file[1], needed, new), files))
    parts: list[Part] = []
    start = 0
    for (url, _), (count, file) in zip(files, seen, strict=True):
        for first in range(0, max(1, count), rows):  # a file without a row is a part too: it has columns
            parts.append(Part(len(parts), url, first, min(rows, count - first), start + first, file))
        start += count
    return parts


def look(url: str, name: str, needed: Sequence[str], new: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """How many rows a file has, and what tells it from another."""
    import pyarrow.parquet

    filesystem, path = place(url)
    with readable(url), filesystem.open(path, "rb") as file:
        known = pyarrow.parquet.ParquetFile(file)
        check_columns(url, known.schema_arrow, needed, new)
        size = file.seek(0, 2)
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - 8 - length)
        footer = hashlib.sha256(file.read(length)).hexdigest()
        rows = known.metadata.num_rows
    try:
        modified = str(filesystem.modified(path))
    except (NotImplementedError, KeyError):  # not every file system knows
        modified = ""
    return rows, {"name": name, "size": size, "modified": modified, "footer": footer}


def check_columns(url: str, schema: Any, needed: Sequence[str], new: Sequence[str]) -> None:
    for column in needed:
        if column not in schema.names:
            raise UsageError(
                f"{shown(url)}: no column {column!r}; the columns are {listed(schema.names)}: choose one with --column"
            )
        if not is_text(schema.field(column).type):
            raise UsageError(f"{shown(url)}: {column!r} holds {schema.field(column).type}, not texts; choose another")
    for column in new:
        if column in schema.names:
            raise UsageError(f"{shown(url)}: has a column {column!r} already, where a result would go; rename it")


def is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def footer(part: Part, job: dict[str, Any], done: Done) -> bytes:
    """What a finished part says of itself."""
    known = {"job": job, "part": part.identity(), "without": done.without, "refused": done.refused}
    return json.dumps(known, ensure_ascii=False).encode("utf-8")


def done_parts(out: str, parts: Sequence[Part], job: dict[str, Any]) -> dict[int, Done]:
    """The parts that need not be done again. A folder with anything else in the place of a part is refused."""
    filesystem, path = place(out)
    if not filesystem.isdir(path):
        return {}
    found = (NAME.fullmatch(posixpath.basename(name)) for name in filesystem.ls(path, detail=False))
    numbers = sorted(int(match[1]) for match in found if match)
    if numbers and numbers[-1] >= len(parts):
        raise UsageError(
            f"{out}: holds {len(numbers)} parts up to number {numbers[-1]}, but this corpus has {len(parts)}; "
            "choose another folder with --out"
        )
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        known = pool.map(lambda number: finished(out, parts[number], job), numbers)
        return {done.number: done for done in known if done is not None}


def finished(out: str, part: Part, job: dict[str, Any]) -> Done | None:
    """What a part's file says, or None if there is none or it is not whole; another job's is refused."""
    import pyarrow.parquet

    filesystem, path = place(out)
    try:
        with filesystem.open(f"{path}/{part.name}", "rb") as file:
            metadata = pyarrow.parquet.read_metadata(file)
    except (OSError, pyarrow.ArrowException):
        return None
    there = told_by(metadata)
    differs = [key for key, value in job.items() if there.get("job", {}).get(key) != value]
    if there.get("part") != part.identity() or metadata.num_rows != part.count:
        differs.append("input")
    if differs:
        raise UsageError(
            f"{out}: {part.name} there was made otherwise (not the same {', '.join(differs)}); "
            "go on as it was begun, or choose another folder with --out"
        )
    return Done(part.number, part.count, there["without"], there["refused"])


def told_by(metadata: Any) -> dict[str, Any]:
    try:
        there = json.loads((metadata.metadata or {}).get(KEY, b"{}"))
    except ValueError:
        return {}
    whole = isinstance(there, dict) and {"job", "part", "without", "refused"} <= there.keys()
    return there if whole and isinstance(there["job"], dict) else {}
