"""Builds every variant of the kernels with AddressSanitizer and UBSan, and runs their property tests in each.

    python tests/kernels/sanitize.py [--examples 150]

Each variant that the processor can run is loaded in a process of its own, in which torch allocates memory from
AddressSanitizer, too; the others are compiled, and counted as skipped. Then an overrun of one byte is written into each
kernel in turn, and the process that runs the kernel must end with the report of it. Exit code 1 if a property fails, if
a sanitizer reports anything, or if a planted overrun is not reported.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.kernels import build, isa

PROPERTIES = Path(__file__).parent / "test_properties.py"
OPTIMISATION = "-O1"  # of the product: -O3; sanitizers see every access of either, and this compiles in less time
FLAGS = [
    *(flag for flag in build.FLAGS if flag != "-O3"),
    *(OPTIMISATION, "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined,float-cast-overflow"),
    "-fno-sanitize-recover=undefined,float-cast-overflow",
]
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")  # the last, so that exceptions of torch are seen
RESULT = "properties checked: "
JOBS = 2

# Kernel: the property that runs it, and a statement that reads or writes one byte too far.
PLANTED = {
    "linear_small": ("test_linear", "((char *)a->y)[a->rows * a->outputs * sizeof *a->y] = 0;"),
    "add_norm": (
        "test_add_norm",
        "((char *)arguments->y)[arguments->rows * arguments->size * sizeof *arguments->y] = 0;",
    ),
    "pack_int8": ("test_linear_int8", "a->packed[packed_int8_size(a->outputs, a->inputs)] = 0;"),
    "linear_int8": ("test_linear_int8", "((char *)a->y)[a->rows * a->outputs * sizeof *a->y] = 0;"),
    "attention_decode": (
        "test_attention_decode",
        "((char *)a->output)[a->batch * a->heads * a->queries * a->value_size * sizeof *a->output] = 0;",
    ),
    "attention_prefill": (
        "test_attention_prefill",
        "((char *)a->output)[a->batch * a->heads * a->queries * a->value_size * sizeof *a->output] = 0;",
    ),
    "accumulate_weight_grad": (
        "test_accumulate_weight_grad",
        "((char *)a->total)[a->outputs * a->inputs * sizeof *a->total] = 0;",
    ),
    "gru_step": (
        "test_gru_step",
        "((char *)a->next)[((a->directions - 1) * a->direction_rows + a->rows) * a->size * sizeof *a->next] = 0;",
    ),
    "gru_step_backward": (
        "test_gru_step_backward",
        "((char *)a->carried)[((a->directions - 1) * a->carried_direction_rows + a->rows) * a->size * 4] = 0;",
    ),
    "fingerprint": (
        "test_fingerprint",
        "volatile char beyond = ((const char *)a->words)[a->count * sizeof *a->words]; (void)beyond;",
    ),
}


@dataclass
class Checked:
    """What came of the properties in a process."""

    code: int
    output: str

    @property
    def examples(self) -> dict[str, int]:
        """How many calls each kernel has computed."""
        found = re.search(f"^{RESULT}(.*)$", self.output, re.MULTILINE)
        return json.loads(found[1]) if found else {}

    def reports(self) -> list[str]:
        """The first line of every report of a sanitizer."""
        return re.findall(r"^.*(?:ERROR: AddressSanitizer|runtime error).*$", self.output, re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=150, help="For each property, in each variant.")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the process that loads it
    parser.add_argument("--property", default="test", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        sys.exit(check_here(arguments.library, arguments.property, arguments.examples))
    missing = [name for name in LIBRARIES if not preloaded(name)] if shutil.which(compiler()[0]) else [compiler()[0]]
    if missing:
        print(f"sanitizers: skipped, because {', '.join(missing)} was not found")
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        variants = list(pool.map(partial(check_variant, Path(folder), arguments.examples), isa.REQUIRED))
        planted = list(pool.map(partial(check_planted, Path(folder), arguments.examples), PLANTED))
    sys.exit(not all([*variants, *planted]))


def check_variant(folder: Path, examples: int, variant: str) -> bool:
    """Compile a variant, check all properties if it runs here, and print a line of the table."""
    library = compiled(folder / variant, variant)
    if variant not in isa.supported():
        print(f"{variant:16} compiled  skipped: this processor cannot run it", flush=True)
        return True
    checked = check(library, variant, "test", examples)
    found = checked.examples
    print(
        f"{variant:16} compiled  {sum(found.values()):5} calls of {len(found)} kernels  "
        f"{len(checked.reports())} reports  {'passed' if not checked.code else 'FAILED'}",
        flush=True,
    )
    if checked.code:
        print(checked.output)
    return not checked.code


def check_planted(folder: Path, examples: int, kernel: str) -> bool:
    """Plant an overrun in a kernel, check its property, and print whether it was reported."""
    variant = isa.supported()[-1]
    if kernel.endswith("int8") and variant == "x86-64":
        print(f"{kernel:24} skipped: there is no int8 kernel for this processor")
        return True
    property_name, statement = PLANTED[kernel]
    sources = folder / f"{kernel}-sources"
    shutil.copytree(build.CSRC, sources)
    file = plant(sources, kernel, statement)
    checked = check(compiled(folder / kernel, variant, sources, file), variant, property_name, examples)
    where = rf"ERROR: AddressSanitizer: heap-buffer-overflow.*?#0 \w+ in {kernel}\S* \S*/{file}:"
    is_caught = bool(checked.code) and bool(re.search(where, checked.output, re.DOTALL))
    print(f"{kernel:24} one byte too far in {file:20} {'reported' if is_caught else 'NOT REPORTED'}", flush=True)
    if not is_caught:
        print(checked.output)
    return is_caught


def plant(sources: Path, kernel: str, statement: str) -> str:
    """Write a statement at the beginning of a kernel; returns the name of its file."""
    for path in sources.glob("*.c"):
        text = path.read_text("utf-8")
        changed, times = re.subn(
            rf"^((?:void|long) {kernel}\([^)]*\) {{)$", rf"\1 {statement}", text, flags=re.MULTILINE
        )
        if times:
            path.write_text(changed, "utf-8")
            return path.name
    raise SystemExit(f"{kernel} was not found in {sources}")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "") or "cc")


def preloaded(library: str) -> str | None:
    """Where a sanitizer's library lies, as the compiler finds it."""
    path = subprocess.run([*compiler(), f"-print-file-name={library}"], capture_output=True, text=True).stdout.strip()
    return path if Path(path).is_absolute() else None


def compiled(folder: Path, variant: str, sources: Path = build.CSRC, changed: str | None = None) -> Path:
    """The library of a variant. Of sources of which one was `changed`, the other objects are those of the variant."""
    folder.mkdir()
    objects = [folder / f"{path.stem}.o" for path in sorted(sources.glob("*.c"))]
    for path in objects:
        source = sources / f"{path.stem}.c"
        if changed in (None, source.name):
            command = [*compiler(), *FLAGS, *isa.COMPILER_FLAGS[variant], "-c", str(source), "-o", str(path)]
            subprocess.run(command, check=True)
        else:
            shutil.copy(folder.parent / variant / path.name, path)
    library = folder / "kernels.so"
    subprocess.run([*compiler(), *FLAGS, *map(str, objects), "-lm", "-o", str(library)], check=True)
    return library


def check(library: Path, variant: str, property_name: str, examples: int) -> Checked:
    """Check properties in a new process that loads this library."""
    environment = os.environ | {
        isa.SWITCH: variant,
        "LD_PRELOAD": " ".join(str(preloaded(name)) for name in LIBRARIES),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees little at its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_WAIT_POLICY": "passive",  # threads that wait leave the processors to others
    }
    environment.pop(build.SWITCH, None)
    command = [sys.executable, __file__, "--library", str(library), "--property", property_name]
    answer = subprocess.run(
        [*command, "--examples", str(examples)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return Checked(answer.returncode, answer.stdout)


class Plugin:
    """Sets how many examples each property gets, and prints how many calls of each kernel were compared."""

    def __init__(self, examples: int):
        self.examples = examples

    def pytest_configure(self, config: Any) -> None:
        from hypothesis import settings

        settings.register_profile("sanitize", max_examples=self.examples)
        settings.load_profile("sanitize")

    def pytest_collection_finish(self) -> None:
        from regard.kernels import ops

        ops.MAX_KEPT_WORKSPACE = 0  # every call gets memory of its own, behind which writes are seen

    def pytest_unconfigure(self, config: Any) -> None:
        found = getattr(sys.modules.get(PROPERTIES.stem), "EXAMPLES", {})
        print(f"\n{RESULT}{json.dumps(found)}", flush=True)


def check_here(library: Path, property_name: str, examples: int) -> int:
    """Check properties in this process, with this library in place of the one that would be compiled."""
    import torch  # first, as in the library: both use its OpenMP runtime  # noqa: F401

    build._built = lambda name: library  # type: ignore[assignment]
    if build.library() is None:
        print(build.status().reason)
        return 1
    chosen = [str(PROPERTIES)] if property_name == "test" else [f"{PROPERTIES}::{property_name}"]
    return int(pytest.main(["-qs", "-p", "no:cacheprovider", "-p", "no:faulthandler", *chosen], [Plugin(examples)]))


if __name__ == "__main__":
    main()
