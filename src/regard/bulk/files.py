"""Parquet here or elsewhere (`s3://`, `gs://`, `hf://`: whatever fsspec opens), read by rows and written whole."""

import io
import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError, told
from regard.files import explained, whole_file

try:
    import fcntl
except ImportError:  # Windows: a folder cannot be locked
    fcntl = None  # type: ignore[assignment]

MAGIC = "*?["


def place(url: str) -> tuple[Any, str]:
    """The file system a name belongs to, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except (ImportError, ValueError) as error:  # a package to install, or a protocol nobody knows
        raise UsageError(f"{url}: cannot be opened ({told(error)})") from error


def is_local(filesystem: Any) -> bool:
    return "file" in ([filesystem.protocol] if isinstance(filesystem.protocol, str) else filesystem.protocol)


def find(source: str) -> list[tuple[str, str]]:
    """The files of a file, a folder or a glob, in the order of their names: (where it is, its name below the folder).

    As elsewhere, names that begin with a dot or an underscore are not data.
    """
    filesystem, path = place(source)
    with readable(source):
        if filesystem.isfile(path):
            root, found = posixpath.dirname(path), [path]
        elif filesystem.isdir(path):
            root, found = path, [file for file in filesystem.find(path) if file.endswith(".parquet")]
        else:
            first = min((path.index(sign) for sign in MAGIC if sign in path), default=None)
            if first is None:
                raise UsageError(f"{source}: no such file or folder")
            root = posixpath.dirname(path[:first])
            found = [file for file in filesystem.glob(path) if filesystem.isfile(file)]
    named = sorted((posixpath.relpath(file, root or "."), file) for file in found)
    data = [(filesystem.unstrip_protocol(file), name) for name, file in named if not is_hidden(name)]
    if not data:
        raise UsageError(f"{source}: no .parquet file there")
    return data


def is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) and part != ".." for part in name.split("/"))


@contextmanager
def readable(url: str) -> Iterator[None]:
    """A file that cannot be read, or is no Parquet, in one line. A network fails in many ways, each with an exception
    of its own."""
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        raise RegardError(f"{shown(url)}: cannot be read as Parquet ({told(error)})") from error


def shown(url: str) -> str:
    """A place as its owner would write it."""
    return url.removeprefix("file://")


class Reader:
    """Rows of Parquet files. It keeps the row group it read last, for a part often begins where another ended."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._file: Any = None
        self._group: tuple[int, Any] | None = None

    def rows(self, url: str, first: int, count: int) -> Any:
        """The table of rows `first` to `first + count`."""
        import pyarrow

        with readable(url):
            self._open(url)
            pieces = [self._read(group).slice(low, high - low) for group, low, high in self._groups(first, count)]
            found = pyarrow.concat_tables(pieces) if pieces else self._file.schema_arrow.empty_table()
        if len(found) != count:
            raise RegardError(f"{shown(url)}: changed while it was read; start again when it is whole")
        return found

    def _groups(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """The row groups these rows lie in, each with the rows to take from it."""
        start = 0
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            low, high = max(first - start, 0), min(first + count - start, rows)
            if low < high:
                yield group, low, high
            start += rows

    def _open(self, url: str) -> None:
        import pyarrow.parquet

        if url != self._url:
            self.close()
            filesystem, path = place(url)
            self._file = pyarrow.parquet.ParquetFile(filesystem.open(path, "rb"))
            self._url = url

    def _read(self, group: int) -> Any:
        if self._group is None or self._group[0] != group:
            self._group = None  # room for the next
            self._group = group, self._file.read_row_group(group)
        return self._group[1]

    def close(self) -> None:
        if self._file is not None:
            self._file.close(force=True)
        self._url = self._file = self._group = None


def write(table: Any, folder: str, name: str) -> None:
    """A Parquet file that appears whole, or (elsewhere than here) is seen to be cut short: its end is missing."""
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(table, content)
    filesystem, path = place(folder)
    if is_local(filesystem):
        with whole_file(Path(path) / name) as file:
            file.write(content.getbuffer())
        return
    try:
        filesystem.makedirs(path, exist_ok=True)
        filesystem.pipe_file(f"{path}/{name}", content.getvalue())
    except Exception as error:
        raise RegardError(f"{folder}: cannot be written ({told(error)})") from error


@contextmanager
def held(folder: str) -> Iterator[None]:
    """A folder that nobody else here writes parts into meanwhile, and without what a killed process left of them."""
    filesystem, path = place(folder)
    if not is_local(filesystem):
        yield
        return
    with explained(Path(path)):
        os.makedirs(path, exist_ok=True)
    with locked(path, folder):
        sweep(path)
        try:
            yield
        finally:
            sweep(path)
            with suppress(OSError):  # only an empty folder can be removed
                os.rmdir(path)


@contextmanager
def locked(path: str, folder: str) -> Iterator[None]:
    """A lock on a local folder, where the system has locks; parts are whole without it."""
    if fcntl is None:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)


def lock(handle: int, folder: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RegardError(f"{folder}: another process is writing its parts; wait for it") from None
    except OSError:  # not every file system can lock, and parts are whole without
        pass


def sweep(folder: str) -> None:
    for half in Path(folder).glob(".part-*.parquet.*.part"):
        half.unlink(missing_ok=True)
