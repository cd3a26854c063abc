"""Instruction sets: the variants in which the kernels are compiled, and the one that this processor runs."""

import os
import platform
from functools import cache
from pathlib import Path

from regard.errors import UsageError

SWITCH = "REGARD_ISA"
NATIVE = "native"  # the only variant on processors that are not x86-64
_V3 = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# From the slowest to the fastest: the processor features (names of /proc/cpuinfo) and the compiler flags of each.
REQUIRED: dict[str, set[str]] = {
    "x86-64": set(),
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "x86-64-v4-vnni": _V4 | {"avx512_vnni"},
}
COMPILER_FLAGS: dict[str, list[str]] = {
    "x86-64": ["-march=x86-64"],
    "x86-64-v3": ["-march=x86-64-v3", "-mtune=native"],  # instructions in another order, and no others
    "x86-64-v4": ["-march=x86-64-v4", "-mtune=native"],
    "x86-64-v4-vnni": ["-march=x86-64-v4", "-mavx512vnni", "-mtune=native"],
    NATIVE: ["-march=native"],
}


@cache
def processor_features() -> frozenset[str]:
    """The features that the kernel of the system lists for this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    listed = next((line for line in lines if line.startswith(("flags", "Features"))), ":")
    return frozenset(listed.partition(":")[2].split())


def supported() -> list[str]:
    """The variants that this processor can run, from the slowest to the fastest."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return [NATIVE]
    return [name for name, required in REQUIRED.items() if required <= processor_features()]


def chosen() -> str:
    """The fastest variant that this processor can run, or the one that REGARD_ISA names."""
    available, name = supported(), os.environ.get(SWITCH, "")
    if not name:
        return available[-1]
    if name not in COMPILER_FLAGS:
        raise UsageError(f"{SWITCH}={name}: unknown instruction set; choose one of {', '.join(available)}")
    if name not in available:
        missing = ", ".join(sorted(REQUIRED.get(name, set()) - processor_features())) or "another architecture"
        raise UsageError(f"{SWITCH}={name}: this processor cannot run it ({missing}); it runs {', '.join(available)}")
    return name
