"""Compiles the kernels once for each instruction set, keeps them in the user's cache folder, and loads them.

Where that is not possible (no compiler, no GNU OpenMP, a cache folder that others can write to, another system than
Linux) or not wanted (`REGARD_NATIVE=0`), there is no library, torch computes instead, and `status` has the reason. A
build that failed is remembered in the cache folder, so that it is not tried again at every start.
"""

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regard import fallbacks
from regard.kernels import isa

CSRC = Path(__file__).parent / "csrc"
SOURCES = sorted(CSRC.glob("*.c"))
HEADERS = sorted(CSRC.glob("*.h"))
SWITCH = "REGARD_NATIVE"
FEATURE = "C kernels"
# Sums may be reordered, so that they can be vectorised. NaN and infinities keep their meaning: a broken model must not
# look healthy. Not -ffast-math, which would also change how the whole process rounds denormal numbers.
FLAGS = (
    *("-O3", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
BUILD_TIMEOUT_S = 120
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
FORMATS = {"long": "l", "int": "i", "float": "f"}  # of Python's module struct
WORKSPACES = {
    "packed_int8_size": 2,
    "attention_prefill_workspace": 3,
    "weight_grad_workspace": 1,
}  # and their arguments


class Unavailable(Exception):
    """There is no library of kernels; the message is the reason."""


@dataclass(frozen=True)
class Status:
    """Whether the kernels are in use: their instruction set and file, or the reason why they are off."""

    isa: str | None = None
    path: Path | None = None
    reason: str | None = None


@cache
def library() -> SimpleNamespace | None:
    """The functions of all kernels, or None. An unusable REGARD_ISA raises UsageError."""
    return _loaded()[0]


def status() -> Status:
    """What `library` found."""
    return _loaded()[1]


@cache
def _loaded() -> tuple[SimpleNamespace | None, Status]:
    if os.environ.get(SWITCH, "1") == "0":
        return None, Status(reason=f"{SWITCH}=0")
    name = isa.chosen()
    if platform.system() != "Linux":
        reason = f"not supported on {platform.system()}"
        fallbacks.report(FEATURE, reason, logging.INFO)
        return None, Status(reason=reason)
    try:
        path = _built(name)
        return _functions(ctypes.CDLL(str(path))), Status(name, path)
    except (Unavailable, OSError) as error:
        fallbacks.report(FEATURE, str(error))
        return None, Status(reason=str(error))


def _functions(loaded: ctypes.CDLL) -> SimpleNamespace:
    """The kernels by their names, if they share torch's threads; int8 needs AVX2, and is missing without."""
    if _openmp_address(loaded) != _openmp_address(_torch_library()):
        raise Unavailable("torch uses another OpenMP runtime than the compiler; two would disturb each other")
    functions: dict[str, Any] = {}
    for name, layout in formats().items():
        if hasattr(loaded, name):
            functions[name] = _with_struct(getattr(loaded, name), layout)
    for name, count in WORKSPACES.items():
        if hasattr(loaded, name):
            functions[name] = getattr(loaded, name)
            functions[name].argtypes, functions[name].restype = [ctypes.c_long] * count, ctypes.c_long
    return SimpleNamespace(**functions)


def _torch_library() -> ctypes.CDLL:
    import torch

    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not path.exists():  # built into another place
        raise Unavailable("libtorch_cpu.so was not found, so its OpenMP runtime is unknown")
    return ctypes.CDLL(str(path))


def _openmp_address(loaded: ctypes.CDLL) -> int | None:
    """Where the function lies that starts parallel regions of GNU OpenMP, as this library finds it."""
    function = getattr(loaded, "GOMP_parallel", None)
    if function is None:
        raise Unavailable("torch does not use GNU OpenMP, and the kernels do")
    return ctypes.cast(function, ctypes.c_void_p).value


@cache
def formats() -> dict[str, str]:
    """The argument struct of each kernel as a format of Python's `struct`, from the header that C is compiled with."""
    text = re.sub(r"/\*.*?\*/", "", (CSRC / "kernels.h").read_text("utf-8"), flags=re.DOTALL)
    structs = re.findall(r"typedef struct \{(.*?)\} (\w+)_arguments;", text, flags=re.DOTALL)
    return {name: "@" + "".join(map(_format, fields.split(";"))) for fields, name in structs}


def _format(declaration: str) -> str:
    """`const float *x, *y` as "PP", `long size, strides[3]` as "q3q"."""
    words = declaration.replace("const", "").strip()
    kind, _, names = words.partition(" ")
    return "".join(
        "P" if "*" in name else re.sub(r"\D", "", name) + FORMATS[kind] for name in names.split(",") if name.strip()
    )


def _with_struct(function: Any, layout: str) -> Callable[..., Any]:
    """A C function that takes a pointer to its arguments, as a function of them."""
    pack = struct.Struct(layout).pack
    function.argtypes, function.restype = [ctypes.c_char_p], ctypes.c_long
    return lambda *arguments: function(pack(*arguments))


def _built(name: str) -> Path:
    """The library of an instruction set, compiled unless it has been."""
    compiler = shlex.split(os.environ.get("CC", "") or "cc")
    if shutil.which(compiler[0]) is None:
        raise Unavailable(f"no C compiler: {compiler[0]} was not found (CC names another one)")
    folder = _private_folder()
    path = folder / f"{name}-{_key(compiler, name)}.so"
    failed = path.with_suffix(".failed")
    if path.exists():
        if _is_private(path) and _is_whole(path):
            return path
        path.unlink()
    if failed.exists():
        reason = failed.read_text("utf-8", "replace")
        raise Unavailable(f"{reason}; remove {failed} to try again")
    try:
        compile_library(path, compiler, [*FLAGS, *isa.COMPILER_FLAGS[name]])
    except Unavailable as error:
        failed.write_text(str(error), "utf-8")
        raise
    return path


def compile_library(path: Path, compiler: list[str], flags: list[str]) -> None:
    """Compile all sources into a shared library, which appears under its name when it is complete."""
    if _is_clang(compiler):
        raise Unavailable(f"{compiler[0]} is clang, whose OpenMP runtime is not the one that torch uses; set CC to gcc")
    with tempfile.TemporaryDirectory(dir=path.parent) as beside:
        made = Path(beside) / path.name
        command = [*compiler, *flags, *map(str, SOURCES), "-lm", "-o", str(made)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=BUILD_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"the build took more than {BUILD_TIMEOUT_S} s") from error
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode("utf-8", "replace").splitlines()
            said = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
            raise Unavailable(f"the build failed: {said.strip()[:200]}") from error
        _mark_whole(made)
        made.chmod(0o700)
        made.replace(path)


def _is_clang(compiler: list[str]) -> bool:
    try:
        answer = subprocess.run([*compiler, "--version"], capture_output=True, timeout=BUILD_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{compiler[0]} --version failed: {error}") from error
    return b"clang" in answer.stdout


# A library that was cut short can be loaded and crash later, so its length and checksum stand at its end.
_MARK = b"regard-kernels-"


def _mark_whole(path: Path) -> None:
    with path.open("rb+") as file:
        digest = hashlib.sha256(file.read()).hexdigest().encode()
        file.write(_MARK + digest)


def _is_whole(path: Path) -> bool:
    content = path.read_bytes()
    end = len(content) - len(_MARK) - 64
    return end > 0 and content[end:] == _MARK + hashlib.sha256(content[:end]).hexdigest().encode()


def _private_folder() -> Path:
    """The cache folder of the kernels. Code is loaded from it, so nobody else may be able to write to it."""
    import platformdirs

    cache_folder = platformdirs.user_cache_path("regard", appauthor=False)
    folder = cache_folder / "kernels"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _is_own(cache_folder):  # data sets made it, with the rights that are usual for this user
        cache_folder.chmod(cache_folder.stat().st_mode & ~WRITABLE_BY_OTHERS)
    for part in (cache_folder, folder):
        if not _is_private(part):
            raise Unavailable(
                f"{part} must be a folder of this user that nobody else can write to, not a link: fix its owner or mode"
            )
    return folder


def _is_private(path: Path) -> bool:
    """Whether a file or folder belongs to this user, is no link, and can be written by nobody else."""
    return _is_own(path) and not path.lstat().st_mode & WRITABLE_BY_OTHERS


def _is_own(path: Path) -> bool:
    info = path.lstat()
    return info.st_uid == os.geteuid() and not stat.S_ISLNK(info.st_mode)


def _key(compiler: list[str], name: str) -> str:
    """A hash of everything that decides the result: a home folder may be shared by different machines."""
    parts = [
        *(file.read_text("utf-8") for file in (*HEADERS, *SOURCES)),
        *FLAGS,
        *isa.COMPILER_FLAGS[name],
        *compiler[1:],
        str(Path(shutil.which(compiler[0]) or "").resolve()),
        platform.machine(),
        *(sorted(isa.processor_features()) if name == isa.NATIVE else ()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
