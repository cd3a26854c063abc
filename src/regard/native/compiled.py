"""The kernels, in C, as a library for this processor: compiled once (a second), kept in the user's cache folder.

Where that cannot be (no compiler, no OpenMP, nowhere to write, another system than Linux) or shall not be
(`REGARD_NATIVE=0`), there is none, and torch's own kernels do the work.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
SWITCH = "REGARD_NATIVE"
# Sums may be taken in any order, so that they can be vectors; infinities and NaN are never put in. Not -ffast-math,
# which would change how the whole process rounds small numbers.
FLAGS = (
    *("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffinite-math-only"),
    *("-fassociative-math", "-freciprocal-math"),
)
PATIENCE = 60  # seconds
POINTER, LONG = ctypes.c_void_p, ctypes.c_long
LONGS = LONG * 4  # the strides of a tensor
FUNCTIONS = {
    "linear": [POINTER, POINTER, LONG, *[POINTER] * 2, ctypes.c_int, *[LONG] * 2],
    "room_of_outer": [LONG],
    "add_outer": [*[POINTER] * 3, *[LONG] * 3, POINTER],
    "gru_step": [*[POINTER] * 5, *[LONG] * 5],
    "gru_step_back": [*[POINTER] * 7, *[LONG] * 6],
    "add_norm": [*[POINTER] * 3, *[LONG] * 2, *[POINTER] * 2, ctypes.c_float],
    "packed8_size": [LONG] * 2,
    "pack8": [*[POINTER] * 2, *[LONG] * 2],
    "linear8": [POINTER, POINTER, LONG, *[POINTER] * 6, LONG, ctypes.c_int, *[LONG] * 2, *[POINTER] * 2],
    "threads": [],
    "fingerprint": [POINTER, LONG],
    "room_of_many": [LONG] * 3,
    "attend_many": [*[POINTER] * 6, *[LONG] * 6, *[POINTER] * 4, ctypes.c_int, ctypes.c_float, POINTER],
    "attend": [*[POINTER] * 5, *[LONG] * 6, *[POINTER] * 4, ctypes.c_int, ctypes.c_float, POINTER],
}
COUNTS = ("packed8_size", "threads", "fingerprint", "room_of_many", "room_of_outer")  # functions that return a number


@cache
def library() -> ctypes.CDLL | None:
    """The functions of all kernels, or None."""
    if os.environ.get(SWITCH, "1") == "0" or platform.system() != "Linux" or not _shares_threads():
        return None
    try:
        loaded = _loaded()
    except (OSError, subprocess.SubprocessError):
        return None
    for name, arguments in FUNCTIONS.items():
        if hasattr(loaded, name):  # those of 8 bits are for processors that have instructions for them
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, LONG if name in COUNTS else None
    return loaded


def _loaded() -> ctypes.CDLL:
    file = _file()
    try:
        return ctypes.CDLL(str(file))
    except OSError:  # it has been damaged
        file.unlink(missing_ok=True)
        return ctypes.CDLL(str(_file()))


def _shares_threads() -> bool:
    """Whether torch runs on GNU's OpenMP, as ours will: threads of two runtimes would be in each other's way."""
    return "libgomp" in Path("/proc/self/maps").read_text()


def _file() -> Path:
    import platformdirs

    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise OSError("there is no C compiler")
    folder = platformdirs.user_cache_path("regard", appauthor=False) / "native"
    file = folder / f"{_fingerprint(compiler)}.so"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder) as beside:  # whoever is first puts it there whole
            made = Path(beside) / file.name
            command = [compiler, *FLAGS, *map(str, SOURCES), "-o", str(made)]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            made.replace(file)
    return file


def _fingerprint(compiler: str) -> str:
    """Of all that decides what comes out: a home may be shared by machines with different processors."""
    processor = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Feat"))]
    told = [
        *(file.read_text("utf-8") for file in (*HEADERS, *SOURCES)),
        *FLAGS,
        str(Path(compiler).resolve()),
        platform.machine(),
        *processor[:1],
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:32]
