"""Files and folders that appear whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
                _to_disk(file)
            os.replace(part, path)
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
            for file in part.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as opened:
                        _to_disk(opened)
            if path.exists():
                shutil.rmtree(path)
            os.replace(part, path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


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


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
