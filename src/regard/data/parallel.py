"""Parallel text from files, one pair at a time.

Four forms: two text files in step (one sentence a line), or one table with a source and a target column:
`.tsv`, `.jsonl` or `.parquet`. Text forms may be gzipped. Nothing is held in memory but the pair at hand (a
batch of rows for Parquet), so the size of a corpus does not matter; nor does the length of a line, because
lines are read with a bound.

A line ends at "\\n" or "\\r\\n" and nowhere else: `str.splitlines` would also break at U+2028 or a form feed
inside a sentence, and put two files out of step.
"""

import gzip
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from regard.data.pairs import Pair
from regard.data.written import written
from regard.errors import RegardError, UsageError, listed, shortened, told

MAX_LINE_CHARACTERS = 100_000
"""A longer line is skipped: no model reads it, and a file without line ends must not fill the memory."""

TABLES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")

_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")
_PARQUET_BATCH_ROWS = 1024
_TEXT_TYPES = ("string", "large_string", "string_view")


def read_pairs(
    path: str | Path,
    *,
    target_path: str | Path | None = None,
    source_column: str = "source",
    target_column: str = "target",
    skipped: Counter[str] | None = None,
) -> Iterator[Pair]:
    """Stream the pairs of a corpus.

    With `target_path`, line i of `path` is translated by line i of `target_path`. Without it, `path` is a
    table and its suffix names the form. A TSV has a header row when its two cells are the column names.

    Pairs with an empty side are left out and counted in `skipped["empty"]`, those with an overlong line in
    `skipped["too long"]`. A wrong request (no such file, unknown suffix) is an error at once, a fault inside
    a file when reading arrives at it.
    """
    path = _existing(path)
    skipped = Counter() if skipped is None else skipped
    if target_path is not None:
        target_path = _existing(target_path)
        return _some(_two_files(path, target_path, skipped), f"{path} and {target_path}", skipped)
    if source_column == target_column:
        raise UsageError(f"{path}: the source and the target column are both {source_column!r}; name two columns")
    form = path.name.lower()
    if form.endswith((".tsv", ".tsv.gz")):
        rows = _tsv(path, source_column, target_column, skipped)
    elif form.endswith((".jsonl", ".jsonl.gz")):
        rows = _jsonl(path, source_column, target_column, skipped)
    elif form.endswith(".parquet"):
        rows = _parquet(path, source_column, target_column, skipped)
    else:
        raise UsageError(
            f"{path}: unknown form {''.join(path.suffixes[-2:]) or path.name!r}; "
            "use .tsv, .jsonl (each also .gz) or .parquet, or name a second file with the target sentences"
        )
    return _some(rows, str(path), skipped)


def read_lines(path: str | Path, longest: int = MAX_LINE_CHARACTERS) -> Iterator[str | None]:
    """Stream the lines of a UTF-8 file, gzipped if it is named .gz; None stands for one longer than `longest`."""
    path = _existing(path)
    try:
        stream = _opened(path)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); check the file and its permissions"
        ) from error
    with stream:
        yield from lines_of(stream, str(path), longest)


def standard_input_lines(longest: int = MAX_LINE_CHARACTERS) -> Iterator[str | None]:
    """Stream the lines of standard input in the same way."""
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    yield from lines_of(sys.stdin.buffer, "standard input", longest)


def lines_of(stream: BinaryIO, path: str, longest: int) -> Iterator[str | None]:
    """Stream the UTF-8 lines of an opened file; `path` is its name in messages."""
    # Four bytes are the longest UTF-8 character; a byte order mark and the line end come on top.
    bound = 4 * longest + len(_BOM) + 2
    number, start = 0, 0  # of the line being read; start is its offset in the (uncompressed) bytes
    try:
        while line := stream.readline(bound):
            number += 1
            size, whole = len(line), True
            while not line.endswith(b"\n") and len(line) == bound:
                line, whole = stream.readline(bound), False
                size += len(line)
            text = _decoded(line, path, number, start) if whole else None
            yield text if text is not None and len(text) <= longest else None
            start += size
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RegardError(
            f"{path}: the gzip data is cut short or damaged after line {number} ({error}); fetch it again"
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read after line {number} ({error.strerror or error}); "
            "check the file and its permissions"
        ) from error


def _decoded(line: bytes, path: str, number: int, start: int) -> str:
    if number == 1 and line.startswith(_BOM):
        line, start = line[len(_BOM) :], start + len(_BOM)
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RegardError(
            f"{path}, line {number}: byte 0x{line[error.start]:02x} at offset {start + error.start} "
            "is not UTF-8; convert the file to UTF-8 (for example with iconv)"
        ) from error


def _existing(path: str | Path) -> Path:
    path = written(path)
    if not path.exists():
        raise UsageError(f"{path}: no such file; check the path")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a file in it")
    return path


def _opened(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        # The outer buffer serves readline in C; without it each line costs a Python call inside gzip.
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), 1 << 17))
    return path.open("rb")


def _some(pairs: Iterator[Pair], place: str, skipped: Counter[str]) -> Iterator[Pair]:
    """The same pairs; an error at the end if there was none."""
    empty, long = skipped["empty"], skipped["too long"]
    first = next(pairs, None)
    if first is None:
        raise RegardError(
            f"{place}: no usable pair ({skipped['empty'] - empty} with an empty side, "
            f"{skipped['too long'] - long} too long); check that this is the right file"
        )
    yield first
    yield from pairs


def _pairs(source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    """The one pair of two lines, or none; a side that is None was too long."""
    if source is None or target is None:
        skipped["too long"] += 1
    elif not source.strip() or not target.strip():
        skipped["empty"] += 1
    else:
        yield Pair(source, target)


def _two_files(source_path: Path, target_path: Path, skipped: Counter[str]) -> Iterator[Pair]:
    end = object()
    source_count = target_count = 0
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path), fillvalue=end):
        source_count += source is not end
        target_count += target is not end
        if source_count == target_count:
            yield from _pairs(cast("str | None", source), cast("str | None", target), skipped)
    if source_count != target_count:
        raise RegardError(
            f"{source_path} has {source_count} lines but {target_path} has {target_count}; "
            "line i of one must be the translation of line i of the other"
        )


def _tsv(path: Path, source_column: str, target_column: str, skipped: Counter[str]) -> Iterator[Pair]:
    """Without a header source and target; with one that names both, any columns in any order."""
    columns = (source_column, target_column)
    places, width = (0, 1), 2
    for number, line in enumerate(read_lines(path), 1):
        if line is None or not line.strip():
            skipped["too long" if line is None else "empty"] += 1
            continue
        cells = line.split("\t")
        if number == 1 and set(columns) <= set(cells):
            places, width = (cells.index(source_column), cells.index(target_column)), len(cells)
            continue
        if number == 1 and columns != ("source", "target"):
            raise UsageError(
                f"{path}, line 1: no header with the columns {source_column!r} and {target_column!r}; "
                f"it holds {' and '.join(map(shortened, cells[:4]))}"
            )
        if len(cells) != width:
            raise RegardError(
                f"{path}, line {number}: {len(cells)} column{'s' * (len(cells) != 1)} instead of {width}; "
                f"write {'source, one tab, target' if width == 2 else 'as many as the header has'}"
            )
        source, target = (cells[place] for place in places)
        yield from _pairs(source, target, skipped)


def _jsonl(path: Path, source_column: str, target_column: str, skipped: Counter[str]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        if line is None or not line.strip():
            skipped["too long" if line is None else "empty"] += 1
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise RegardError(
                f"{place}: not JSON ({error.msg} at column {error.colno}); write one object per line"
            ) from error
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{place}: not usable JSON ({error}); write one object of two texts per line") from error
        if not isinstance(row, dict):
            raise RegardError(f"{place}: {shortened(row)} is not an object; write one object per line")
        source, target = (_text(row, column, place) for column in (source_column, target_column))
        yield from _pairs(source, target, skipped)


def _text(row: dict[str, object], column: str, place: str) -> str:
    if column not in row:
        raise _missing(column, list(row), place)
    value = row[column]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RegardError(f"{place}: {column!r} is {shortened(value)}; it must be a text")
    if _SURROGATE.search(value):
        raise RegardError(f"{place}: {column!r} holds half of a \\ud83d\\ude00-style pair; write both halves")
    return value


def _parquet(path: Path, source_column: str, target_column: str, skipped: Counter[str]) -> Iterator[Pair]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RegardError(f"{path}: reading Parquet needs pyarrow; run: pip install 'regard[data]'") from error

    columns = (source_column, target_column)
    row = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for column in columns:
                if column not in file.schema_arrow.names:
                    raise _missing(column, file.schema_arrow.names, str(path))
                kind = file.schema_arrow.field(column).type
                if str(kind) not in _TEXT_TYPES and not (
                    pyarrow.types.is_dictionary(kind) and str(kind.value_type) in _TEXT_TYPES
                ):
                    raise UsageError(f"{path}: column {column!r} holds {kind} values; name a column of texts")
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH_ROWS, columns=list(columns)):
                for cells in zip(*(batch.column(column) for column in columns), strict=True):
                    row += 1
                    texts = [cell.as_py() or "" for cell in cells]
                    source, target = (text if len(text) <= MAX_LINE_CHARACTERS else None for text in texts)
                    yield from _pairs(source, target, skipped)
    except UnicodeDecodeError as error:
        raise RegardError(f"{path}, row {row}: a text is not UTF-8 ({error.reason}); write the file again") from error
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise RegardError(
            f"{path}: not a readable Parquet file after row {row} ({told(error)}); write it again"
        ) from error


def _missing(column: str, present: list[str], place: str) -> UsageError:
    return UsageError(f"{place}: no column {column!r}; the columns are {listed(present, 12)}: name two of them")
