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

from compare.checkouts import Checkout, export_commit, exported

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
        checkouts = {
            "before": export_commit(arguments.base, folder / "before"),
            "after": exported(arguments.after, folder / "after"),
        }
        environments = {
            side: environment(checkout, compiler, arguments.isa, folder / f"cache-{side}")
            for side, checkout in checkouts.items()
        }
        run = arguments.run.resolve() if arguments.run else train(folder, environments["before"], arguments.steps)
        (folder / "sentences").write_text("\n".join(SENTENCES) + "\n", "utf-8")
        numbers = compared(folder, run, environments, arguments.at_once)
    from result_files import write_result

    command = " ".join(["python benchmarks/count_instructions.py", *sys.argv[1:]])
    settings = {"isa": arguments.isa, "steps": None if arguments.run else arguments.steps, "sentences": SENTENCES}
    commits = {side: checkout.record() for side, checkout in checkouts.items()}
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


def train(folder: Path, variables: Mapping[str, str], steps: int) -> Path:
    """A demo model, trained with the sources before the change."""
    print(f"training the demo model for {steps} steps", flush=True)
    words = [RECIPE, f"training.steps={steps}", f"training.validate_every={steps}", "training.device=cpu"]
    variables = {**variables, "OMP_NUM_THREADS": str(os.cpu_count())}
    subprocess.run(
        [sys.executable, "-m", "regard", "train", *words],
        cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder / "runs" / RECIPE


def compared(folder: Path, run: Path, environments: Mapping[str, Mapping[str, str]], at_once: int) -> dict[str, Any]:
    """Instructions of ten sentences on both sides."""

    def command(count: int) -> list[str]:
        return [sys.executable, str(SCRIPT), str(run), str(folder / "sentences"), str(count)]

    for side, variables in environments.items():  # compiles the kernels, and Python's files
        warm = subprocess.run(command(ONE), env=variables, check=True, capture_output=True, text=True)
        print(f"{side}: {json.loads(warm.stdout)[0]!r}", flush=True)
    with ThreadPoolExecutor(at_once) as pool:
        futures = {
            (side, count): pool.submit(counted, command(count), variables, f"{side}, {count} sentences")
            for side, variables in environments.items()
            for count in (ONE, ELEVEN)
        }
        found = {each: future.result() for each, future in futures.items()}
    texts = found["before", ELEVEN][1]
    for (side, count), (_, translations) in found.items():
        if translations != texts[:count]:
            raise SystemExit(f"{side}, {count} sentences: {translations}; before: {texts[:count]}; nothing is compared")
    cost = {side: found[side, ELEVEN][0] - found[side, ONE][0] for side in environments}
    ratio = cost["after"] / cost["before"]
    verdict = "holds" if ratio <= MOST_RATIO else "missed"
    print(f"ten sentences: before {cost['before']:,}, after {cost['after']:,}, ratio {ratio:.4f}: {verdict}")
    return {
        "translations": texts,
        "instructions": {f"{side}, {count} sentences": found[side, count][0] for side, count in found},
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
