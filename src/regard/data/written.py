"""Paths as people, and files, write them; and addresses of files elsewhere."""

import atexit
import hashlib
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from regard.errors import UsageError, shortened, told


def written(path: str | Path) -> Path:
    """The path, with `~` for home. One that no disk can hold, or nobody's home, is a file that is not there.

    Of an address (s3://..., https://...) it is a copy's path, which is fetched now and lives as long as this process.
    """
    if is_remote(path):
        return _fetched(str(path))
    try:
        found = Path(path).expanduser()
        found.exists()
        return found
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{shortened(str(path))}: no such file ({told(error)})") from error


def is_remote(path: str | Path) -> bool:
    """Whether it is an address for fsspec: a system and a path in it."""
    return isinstance(path, str) and re.match(r"[a-z][a-z0-9+.\-]+://", path) is not None


@cache
def _copies() -> Path:
    """A folder that is gone when this process is."""
    folder = Path(tempfile.mkdtemp(prefix="regard-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _fetched(address: str) -> Path:
    import fsspec

    copy = _copies() / hashlib.sha256(address.encode()).hexdigest()[:16] / address.rpartition("/")[2]
    if copy.exists():
        return copy
    try:
        system, path = fsspec.core.url_to_fs(address)
        copy.parent.mkdir(exist_ok=True)
        system.get_file(path, str(copy))
    except Exception as error:  # every system has its own
        raise UsageError(f"{address}: cannot be fetched ({told(error)}); check the address") from error
    return copy
