"""What `regard doctor` reports: a section of names and values for each part of the machine."""

import importlib.metadata
import os
import platform
import re
import shlex
import shutil

import torch

import regard
from regard import fallbacks
from regard.kernels import build, isa
from regard.kernels.ops import num_threads
from regard.processors import available_cpus

Section = dict[str, str]


def diagnosis() -> dict[str, Section]:
    """The sections of the report, in the order in which they are printed."""
    kernels = _kernels()
    return {
        "versions": _versions(),
        "C kernels": kernels,
        "threads": _threads(),
        "optional packages": _extras(),
        "fallbacks": fallbacks.reported() or {"none": "everything runs as fast as it can here"},
    }


def _versions() -> Section:
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _kernels() -> Section:
    status = build.status()
    compiler = shlex.split(os.environ.get("CC", "") or "cc")
    return {
        "state": "on" if status.reason is None else f"off: {status.reason}",
        "instruction set": status.isa or "-",
        "supported here": ", ".join(isa.supported()),
        "library": str(status.path or "-"),
        "compiler": f"{shlex.join(compiler)} ({shutil.which(compiler[0]) or 'not found'})",
        "torch's own": torch.backends.cpu.get_cpu_capability(),
    }


def _threads() -> Section:
    return {
        "torch": str(torch.get_num_threads()),
        "kernels": str(num_threads()),
        "processors": f"{available_cpus()} usable of {os.cpu_count()}",
    }


def _extras() -> Section:
    """For each extra of the package, which of its requirements are installed."""
    found: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("regard") or []:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        name = re.split(r"[\s<>=!~\[(;]", requirement.strip(), maxsplit=1)[0]
        if extra and name != "regard" and extra[1] not in ("test", "lint", "docs", "bench", "fuzz"):
            found.setdefault(extra[1], []).append(_installed(name))
    return {extra: ", ".join(names) for extra, names in found.items()}


def _installed(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} (not installed)"
