"""Files and folders that appear whole or not at all, and go the same way.

Whatever is being written or removed bears a hidden name that ends in .part, and a single rename gives or takes its
real one: a process may be killed between any two lines of this file. What it then leaves is swept away by the next.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import RegardError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when the block ends well; folders on the way are made."""
    part = _part(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            to_disk(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder that appears under its name, in place of an older one, only when the block ends well."""
    part = _part(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.mkdir()
            yield part
            for written in (*part.rglob("*"), part):
                to_disk(written)
            _take_place(part, path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _take_place(part: Path, path: Path) -> None:
    """Rename a folder; an older one of that name steps aside whole, and back again if the new one cannot come."""
    old = _part(path)
    replaces = path.is_dir() and not path.is_symlink()
    if replaces:
        os.replace(path, old)
    try:
        os.replace(part, path)
    except BaseException:
        if replaces:
            os.replace(old, path)
        raise
    to_disk(path.parent)
    if replaces:
        shutil.rmtree(old, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a folder; nobody ever meets half of it under its name."""
    with explained(folder):
        old = _part(folder)
        os.replace(folder, old)
        shutil.rmtree(old)


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written or half-removed, however deep."""
    with explained(folder):
        for part in list(folder.rglob(".*.part")):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def replace_link(link: Path, target: str) -> None:
    """Let the symbolic link point to `target` from one moment to the next."""
    part = _part(link)
    with explained(link):
        os.symlink(target, part)
        try:
            os.replace(part, link)
            to_disk(link.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """A failing disk in one line: full, read-only, not permitted."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RegardError(
            f"{path}: cannot be written ({reason}); free some space, mend the permissions or choose another folder"
        ) from error


def _part(path: Path) -> Path:
    # Not tempfile: its files are private to their owner, while a data folder may serve a whole group.
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk: a power cut forgets what is only in memory."""
    with suppress(OSError) if path.is_dir() else nullcontext():  # not every system can wait for a folder
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
