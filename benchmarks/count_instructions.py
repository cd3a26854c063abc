"""Whether a change makes a translation cost more instructions: this version against an earlier commit, by callgrind.

    python benchmarks/count_instructions.py BASE [--after COMMIT] [--isa x86-64-v3] [--run RUN] [-o FILE]

A demo model is trained with the sources of BASE, or RUN is the folder of one. For each of both versions valgrind counts
the instructions of a process that translates eleven sentences, one by one, and of one that translates the first of
them. The difference is the cost of ten sentences, without that of Python's start and of loading. It must be at most
2 % higher than before. All four processes must give the same translations, or nothing is compared.

The C kernels are compiled for the instruction set `--isa`, because valgrind has no AVX-512: a wrapper of the compiler
replaces `-march=native`, and versions that read the variable REGARD_ISA get the same name. torch and oneDNN are
restricted to AVX2. One thread, one hash seed, one memory layout: the count is repeatable. The exit code is 1 if the
limit is missed. Results go into results/instructions.json or FILE.
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
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compare.checkouts import Checkout, exported

NAME = "instructions"
SCRIPT = Path(__file__).parent / "compare" / "one_by_one.py"
RECIPE = "demo-translate"
ONE, ELEVEN = 1, 11
MOST_RATIO = 1.02  # of the instructions after to those before
SENTENCES = [  # of the demo's test split
    "which newspaper do they read ?",
    "the bicycle was repaired by ana .",
    "thank you very much , that king likes birds .",
    "she thinks that we study at the library .",
    "the chocolate was bought by maria .",
    "how did your neighbors bring the cheese ?",
    "your grandmothers called your aunts because they were sad .",
    "they know a man that lives in japan .",
    "he goes to bed at six o'clock .",
    "miguel and maria are going to have breakfast late .",
    "your husband is going to read the dictionary and i am going to dance .",
]
ISA_IN_TORCH = {  # the restriction of torch's own kernels, of oneDNN and of MKL that belongs to an instruction set
    "x86-64-v2": ("default", "SSE41", "SSE4_2"),
    "x86-64-v3": ("avx2", "AVX2", "AVX2"),
}
# Argument by argument, so that paths with blanks stay whole.
COMPILER = """#!/bin/sh
for argument in "$@"; do
    shift
    case "$argument" in
        -march=*) set -- "$@" -march={isa} ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {compiler} "$@"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="The commit to compare with.")
    parser.add_argument("--after", metavar="COMMIT", help="The commit to count. Default: the working tree.")
    parser.add_argument("--isa", choices=list(ISA_IN_TORCH), default="x86-64-v3", help="Of the C kernels.")
    parser.add_argument("--steps", type=int, default=750, help="Of the training of the demo model.")
    parser.add_argument("--run", type=Path, help="A run folder of the demo that both versions can load.")
    parser.add_argument("--at-once", type=int, default=2, help="Processes that are counted side by side.")
    parser.add_argument("-o", "--output", type=Path, help=f"The result file. Default: results/{NAME}.json.")
    arguments = parser.parse_args()
    for program in ("valgrind", os.environ.get("CC", "cc")):
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed; install valgrind and a C compiler")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiler = write_compiler(folder / "compiler", arguments.isa)
        (folder / "sentences").write_text("\n".join(SENTENCES) + "\n", "utf-8")
        run = arguments.run.resolve() if arguments.run else folder / "runs" / RECIPE
        commits, found = {}, {}
        for side, revision in {"before": arguments.base, "after": arguments.after}.items():
            # Both versions lie in the same folder, one after the other: other paths would cost other instructions.
            version, cache = folder / "version", folder / "cache"
            checkout = exported(revision, version)
            commits[side] = checkout.record()
            variables = environment(checkout, compiler, arguments.isa, cache)
            if not run.exists():
                train(folder, variables, arguments.steps)
            found[side] = counted_both(side, run, folder / "sentences", variables, arguments.at_once)
            shutil.rmtree(version)
            shutil.rmtree(cache, ignore_errors=True)
    numbers = compared(found)
    from result_files import write_result

    command = " ".join(["python benchmarks/count_instructions.py", *sys.argv[1:]])
    settings = {"isa": arguments.isa, "steps": None if arguments.run else arguments.steps, "sentences": SENTENCES}
    print(f"wrote {write_result(NAME, command, {**commits, **settings, **numbers}, arguments.output)}")
    sys.exit(numbers["verdict"] != "holds")


def write_compiler(path: Path, isa: str) -> Path:
    """A compiler for another instruction set than this processor's."""
    real = shutil.which(os.environ.get("CC", "cc")) or "cc"
    path.write_text(COMPILER.format(isa=isa, compiler=shlex.quote(real)), "utf-8")
    path.chmod(0o755)
    return path


def environment(checkout: Checkout, compiler: Path, isa: str, cache: Path) -> dict[str, str]:
    torch_isa, onednn_isa, mkl_isa = ISA_IN_TORCH[isa]
    return checkout.environment(
        CC=str(compiler),
        XDG_CACHE_HOME=str(cache),
        REGARD_ISA=isa,
        ATEN_CPU_CAPABILITY=torch_isa,
        ONEDNN_MAX_CPU_ISA=onednn_isa,
        MKL_ENABLE_INSTRUCTIONS=mkl_isa,
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
    )


def train(folder: Path, variables: Mapping[str, str], steps: int) -> None:
    """Train a demo model in `runs`, with the sources before the change."""
    print(f"training the demo model for {steps} steps", flush=True)
    words = [RECIPE, f"training.steps={steps}", f"training.validate_every={steps}", "training.device=cpu"]
    variables = {**variables, "OMP_NUM_THREADS": str(os.cpu_count())}
    subprocess.run(
        [sys.executable, "-m", "regard", "train", *words],
        cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def counted_both(
    side: str, run: Path, sentences: Path, variables: Mapping[str, str], at_once: int
) -> dict[int, tuple[int, list[str]]]:
    """Instructions and translations of one sentence and of eleven."""

    def command(count: int) -> list[str]:
        return [sys.executable, str(SCRIPT), str(run), str(sentences), str(count)]

    # Compiles the kernels, and Python's files.
    warm = subprocess.run(command(ONE), env=variables, check=True, capture_output=True, text=True)
    print(f"{side}: {json.loads(warm.stdout)[0]!r}", flush=True)
    with ThreadPoolExecutor(at_once) as pool:
        futures = {
            count: pool.submit(counted, command(count), variables, f"{side}, {count} sentences")
            for count in (ONE, ELEVEN)
        }
        return {count: future.result() for count, future in futures.items()}


def compared(found: Mapping[str, Mapping[int, tuple[int, list[str]]]]) -> dict[str, Any]:
    """The cost of ten sentences on both sides, their ratio, and whether it is low enough."""
    texts = found["before"][ELEVEN][1]
    for side, counts in found.items():
        for count, (_, translations) in counts.items():
            if translations != texts[:count]:
                fault = f"{side}, {count} sentences: {translations}; before: {texts[:count]}"
                raise SystemExit(f"{fault}; nothing is compared")
    cost = {side: counts[ELEVEN][0] - counts[ONE][0] for side, counts in found.items()}
    ratio = cost["after"] / cost["before"]
    verdict = "holds" if ratio <= MOST_RATIO else "missed"
    print(f"ten sentences: before {cost['before']:,}, after {cost['after']:,}, ratio {ratio:.4f}: {verdict}")
    return {
        "translations": texts,
        "instructions": {side: {str(count): counts[count][0] for count in counts} for side, counts in found.items()},
        "difference": cost,
        "ratio": round(ratio, 5),
        "verdict": verdict,
    }


def counted(command: list[str], variables: Mapping[str, str], name: str) -> tuple[int, list[str]]:
    """The instructions of a process, and the translations it printed."""
    started = time.perf_counter()
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    run = subprocess.run([*counting, *command], env=variables, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or collected is None:
        raise SystemExit(f"{name}: valgrind ended with {run.returncode}, so nothing is compared:\n{run.stderr[-3000:]}")
    count = int(collected[1])
    print(f"{name}: {count:,} instructions, counted in {time.perf_counter() - started:.0f} s", flush=True)
    return count, json.loads(run.stdout)


if __name__ == "__main__":
    main()
