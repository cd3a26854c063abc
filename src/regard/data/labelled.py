"""Labelled texts from tables, one at a time: `.jsonl`, `.tsv`, `.csv` (each also .gz) or `.parquet`.

TSV and CSV files begin with a header. A label is a text or a whole number. A row may hold a pair of texts. Rows with an
empty or overlong text are left out and counted; a row without a label, or without one of the columns, is an error that
names its place.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.parallel import read_lines
from regard.data.written import written
from regard.errors import RegardError, UsageError, listed, shortened, told

LONGEST_TEXT = 10_000_000  # characters; a file without line ends must not fill the memory
FORMS = (".jsonl", ".tsv", ".csv", ".parquet")
TABLES = (*FORMS, ".jsonl.gz", ".tsv.gz", ".csv.gz")

Row = tuple[str, dict[str, Any]]  # its place and its columns


@dataclass(frozen=True)
class Labelled:
    """A text or a pair of texts, what it is, and where it was found."""

    text: str
    label: str
    place: str = ""
    second: str | None = None


def read_labelled(
    path: str | Path,
    *,
    text_column: str = "text",
    label_column: str = "label",
    second_column: str | None = None,
    form: str | None = None,
    skipped: Counter[str] | None = None,
) -> Iterator[Labelled]:
    """Stream the labelled texts of a table, or pairs of them. A wrong request is an error at once, a fault inside the
    file when reading arrives at it."""
    skipped = Counter() if skipped is None else skipped
    columns = (text_column,) if second_column is None else (text_column, second_column)
    return _labelled(read_rows(path, skipped, form), str(path), columns, label_column, skipped)


def read_texts(path: str | Path, text_column: str = "text", skipped: Counter[str] | None = None) -> Iterator[str]:
    """The texts alone, empty ones included: so many rows, so many answers."""
    return (_text(columns, text_column, place) for place, columns in read_rows(path, skipped))


def read_text_pairs(path: str | Path, text_column: str, second_column: str) -> Iterator[tuple[str, str]]:
    """Pairs of texts, empty ones included."""
    for place, columns in read_rows(path):
        yield _text(columns, text_column, place), _text(columns, second_column, place)


def read_rows(path: str | Path, skipped: Counter[str] | None = None, form: str | None = None) -> Iterator[Row]:
    """The rows of a table, in the form its name tells or the one given; overlong ones are left out and counted."""
    path = written(path)
    name = path.name.lower().removesuffix(".gz")
    readers = {".jsonl": _jsonl, ".tsv": _tsv, ".csv": _csv, ".parquet": _parquet}
    form = form or next((form for form in FORMS if name.endswith(form)), None)
    if not path.is_file():
        raise UsageError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; name a file of labelled texts")
    if form is None or (form == ".parquet" and path.name.lower().endswith(".gz")):
        raise UsageError(f"{path}: unknown form; use .jsonl, .tsv, .csv (each also .gz) or .parquet")
    return readers[form](path, Counter() if skipped is None else skipped)


def _labelled(
    rows: Iterator[Row], path: str, text_columns: tuple[str, ...], label_column: str, skipped: Counter[str]
) -> Iterator[Labelled]:
    count = 0
    for place, columns in rows:
        text, *more = (_text(columns, column, place) for column in text_columns)
        if not all(part.strip() for part in (text, *more)):
            skipped["empty"] += 1
            continue
        if max(map(len, (text, *more))) > LONGEST_TEXT:
            skipped["too long"] += 1
            continue
        count += 1
        yield Labelled(text, _label(columns, label_column, place), place, more[0] if more else None)
    if count == 0:
        told = ", ".join(f"{number} {why}" for why, number in skipped.items()) or "it is empty"
        raise RegardError(f"{path}: no usable text ({told}); check that this is the right file")


def _text(columns: dict[str, Any], column: str, place: str) -> str:
    value = _cell(columns, column, place)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RegardError(f"{place}: {column!r} is {shortened(value)}; it must be a text")
    # Half of a surrogate pair, which JSON can spell, belongs to no text.
    return value.encode("utf-8", "replace").decode("utf-8")


def _label(columns: dict[str, Any], column: str, place: str) -> str:
    value = _cell(columns, column, place)
    if not isinstance(value, str | int) or not str(value).strip():
        raise RegardError(f"{place}: {column!r} is {shortened(value)}; a label is a text or a whole number")
    return str(value).strip()


def _cell(columns: dict[str, Any], column: str, place: str) -> Any:
    if column not in columns:
        raise UsageError(f"{place}: no column {column!r}; the columns are {listed(columns, 12)}")
    return columns[column]


def _lines(path: Path, skipped: Counter[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(read_lines(path, longest=LONGEST_TEXT), 1):
        if line is None:
            skipped["too long"] += 1
        else:
            yield number, line


def _jsonl(path: Path, skipped: Counter[str]) -> Iterator[Row]:
    for number, line in _lines(path, skipped):
        place = f"{path}, line {number}"
        if not line.strip():
            skipped["empty"] += 1
            continue
        try:
            columns = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{place}: not JSON ({error}); write one object per line") from error
        if not isinstance(columns, dict):
            raise RegardError(f"{place}: {shortened(columns)} is not an object; write one object per line")
        yield place, columns


def _tsv(path: Path, skipped: Counter[str]) -> Iterator[Row]:
    """Tabs between cells and nothing else: a quotation mark is a character of the text."""
    cells = ((number, line.split("\t")) for number, line in _lines(path, skipped))
    yield from _with_header(cells, path, skipped)


def _csv(path: Path, skipped: Counter[str]) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_TEXT))
    # Quoted cells may hold line ends, so the reader gets them back.
    rows = csv.reader((line + "\n" for _, line in _lines(path, skipped)), strict=True)

    def cells() -> Iterator[tuple[int, list[str]]]:
        try:
            for row in rows:
                yield rows.line_num, row
        except csv.Error as error:
            raise RegardError(f"{path}, line {rows.line_num}: not CSV ({error}); mend the quotation marks") from error

    yield from _with_header(cells(), path, skipped)


def _with_header(rows: Iterator[tuple[int, list[str]]], path: Path, skipped: Counter[str]) -> Iterator[Row]:
    _, header = next(rows, (0, []))
    for number, cells in rows:
        if not any(cells):
            skipped["empty"] += 1
            continue
        if len(cells) != len(header):
            columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
            raise RegardError(f"{path}, line {number}: {columns} instead of the header's {len(header)}")
        yield f"{path}, line {number}", dict(zip(header, cells, strict=True))


def _parquet(path: Path, skipped: Counter[str]) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RegardError(f"{path}: reading Parquet needs pyarrow; run: pip install 'regard[data]'") from error
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for columns in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", columns
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise RegardError(f"{path}: not a readable Parquet file after row {number} ({told(error)})") from error
