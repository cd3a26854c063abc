"""Where data lie: a file, a folder of files, a pattern such as corpus/*.parquet, or an address that fsspec knows.

A large corpus comes in shards. They are read in the order of their names, whatever the order in which a disk lists
them: what is read depends on the names alone. Remote shards are fetched one after the other, each when it is needed.
"""

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from regard.data.written import is_remote, written
from regard.errors import UsageError, told

Item = TypeVar("Item")


def shards(entries: Sequence[str], suffixes: tuple[str, ...]) -> list[str]:
    """The files behind the entries of a data section. Of a folder, those that end like this; of a pattern, all."""
    return [file for entry in entries for file in _files(entry, suffixes)]


def in_turn(readers: Sequence[Callable[[], Iterable[Item]]]) -> Iterator[Item]:
    """What all of them read. The first looks at its file at once, so that a wrong one is told at once."""
    first, *rest = readers
    return chain(first(), chain.from_iterable(read() for read in rest))


def _files(entry: str, suffixes: tuple[str, ...]) -> list[str]:
    if is_remote(entry):
        return _remote(entry, suffixes)
    path = written(entry)
    if path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if file.is_file()]
        return _some(_known(found, suffixes), entry, suffixes)
    if glob.has_magic(entry) and not path.exists():
        found = [file for file in sorted(glob.glob(str(path), recursive=True)) if Path(file).is_file()]
        return _some(found, entry, ())
    return [entry]


def _remote(entry: str, suffixes: tuple[str, ...]) -> list[str]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(entry)
        is_pattern, is_folder = glob.has_magic(path), system.isdir(path)
        found = system.glob(path) if is_pattern else system.find(path) if is_folder else [path]
        names = [system.unstrip_protocol(name) for name in sorted(found)]
    except Exception as error:  # every system has its own
        raise UsageError(f"{entry}: cannot be listed ({told(error)}); check the address") from error
    return _some(names if not is_folder else _known(names, suffixes), entry, suffixes if is_folder else ())


def _known(files: list[str], suffixes: tuple[str, ...]) -> list[str]:
    """Those of these kinds; what begins with a dot or a line is somebody's note beside the data."""
    names = [(file, file.rpartition("/")[2].lower()) for file in files]
    return [file for file, name in names if name.endswith(suffixes) and not name.startswith((".", "_"))]


def _some(files: list[str], entry: str, suffixes: tuple[str, ...]) -> list[str]:
    if not files:
        wanted = f" that ends with {', '.join(suffixes)}" if suffixes else ""
        raise UsageError(f"{entry}: no file there{wanted}; check the path")
    return files
