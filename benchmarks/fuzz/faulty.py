"""Loaders with a fault each, by which the fuzzing itself is tested: it must find every one of them."""

import os
from collections.abc import Callable
from pathlib import Path

from fuzz.running import Loader
from regard.errors import RegardError


def crash(content: bytes) -> None:
    os.abort()


def hang(content: bytes) -> None:
    while True:
        pass


def greed(content: bytes) -> None:
    try:
        bytearray(3 << 30)
    except MemoryError as error:
        raise RegardError("too large") from error


def untyped(content: bytes) -> None:
    raise KeyError("a")


def empty(content: bytes) -> None:
    raise RegardError("")


def panic(content: bytes) -> None:
    raise BaseException("like a library that panics")


def loader(name: str, fault: Callable[[bytes], None]) -> Loader:
    """It fails at every file that does not begin as it should."""

    def load(folder: Path) -> None:
        path = folder / "file.txt"
        content = path.read_bytes() if path.is_file() else b""
        if not content.startswith(b"whole"):
            fault(content)

    return Loader(f"faulty-{name}", f"{name} at some files", lambda: [{"file.txt": b"whole"}], load)


LOADERS = {
    found.name: found
    for found in (loader(fault.__name__, fault) for fault in (crash, hang, greed, untyped, empty, panic))
}
