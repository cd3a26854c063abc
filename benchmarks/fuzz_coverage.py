"""Coverage-guided fuzzing of the readers of checkpoints, tokenizers and tables, with atheris.

    pip install 'regard[fuzz]'
    python benchmarks/fuzz_coverage.py [checkpoint] [tokenizer] [table] [--runs 20000] [--seed 1] [--keep FOLDER]
    python benchmarks/fuzz_coverage.py checkpoint --input FILE      one input again, with its traceback

Where `fuzz_loaders.py` spoils examples blindly, atheris (libFuzzer for Python) sees which lines of the library an input
reaches, and keeps the inputs that reach new ones to change them further. It changes bytes itself or in the ways of
`fuzz/mutations.py`, which know the formats. An input must load, or be refused by a RegardError of one line with less
than 600 characters, within 5 seconds and 2 GB. Inputs that fail are written to FOLDER. Exit code 1 if there was one.
The counts go into results/fuzz-coverage.json; those of other readers stay there.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

RESULT = "fuzz-coverage"
SECONDS, MEGABYTES, LONGEST = 5, 2048, 60_000
# The loaders of fuzz/loaders.py that are fuzzed together, and the endings of the files that are.
TARGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "checkpoint": (("checkpoint", "weights", "int8"), ("config.json", ".safetensors")),
    "tokenizer": (("tokenizer", "public-tokenizer", "marian-tokenizer"), (".json", ".txt", ".spm")),
    "table": (("pairs", "labelled", "captions", "conllu", "links"), (".tsv", ".csv", ".jsonl", ".conllu", ".txt")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="READER", help=f"Of {', '.join(TARGETS)}; all without one.")
    parser.add_argument("--runs", type=int, default=20_000, help="Inputs for each reader.")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the mutations; not 0, which stands for the time.")
    parser.add_argument("--keep", type=Path, help="Folder for inputs that fail; a temporary one without it.")
    parser.add_argument("--input", type=Path, help="Load this input again.")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = arguments.targets or list(TARGETS)
    for name in chosen:
        if name not in TARGETS:
            parser.error(f"there is no reader {name!r}: choose of {', '.join(TARGETS)}")
    if arguments.child:
        return fuzz(chosen[0], arguments.runs, arguments.seed, arguments.child)
    if arguments.input:
        return again(chosen[0], arguments.input.read_bytes())
    failed = 0
    for name in chosen:
        result = fuzzed(name, arguments)
        failed += len(result["failures"])
        note(name, result, arguments)
    print(f"{failed} failures")
    sys.exit(failed > 0)


def target(name: str, place: Path) -> Any:
    from fuzz.coverage import Target
    from fuzz.loaders import LOADERS

    loaders, endings = TARGETS[name]
    return Target.of([LOADERS[each] for each in loaders], endings, place)


def fuzz(name: str, runs: int, seed: int, folder: Path) -> None:
    """Fuzz in this process, which libFuzzer ends itself; counts and faults are written to a folder."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is needed; run: pip install 'regard[fuzz]'")
    os.fsync = lambda file: None  # what is written here need not survive
    corpus, failed = folder / "corpus", folder / "failed"
    for path in (corpus, failed):
        path.mkdir()
    with atheris.instrument_imports(include=["regard"]):  # loaders import what they use when they are used first
        readers = target(name, folder / "examples")
    for number, seed_input in enumerate(readers.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed_input)

    def one(given: bytes) -> None:
        found = readers.run(given)
        if found is not None:
            path = failed / f"{name}-{len(readers.faults)}"
            path.write_bytes(given)
            with (folder / "faults").open("a") as file:
                file.write(f"{path.name}\t{found}\n")
        counts = {"loaded": readers.loaded, "refused": readers.refused}
        (folder / "counts").write_text(json.dumps(counts))

    def mutate(given: bytes, most: int, drawn: int) -> bytes:
        changed = readers.mutated(given, drawn) if drawn % 2 else atheris.Mutate(given, most)
        return bytes(changed)[:most]

    options = [f"-runs={runs}", f"-seed={seed}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}"]
    options += [f"-max_len={LONGEST}", "-len_control=0", f"-artifact_prefix={failed}/"]
    atheris.Setup([name, *options, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


def fuzzed(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All inputs of one reader, in a process of its own."""
    from fuzz.running import QUIET

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as own:
        folder = Path(own)
        command = [sys.executable, __file__, name, "--runs", str(arguments.runs), "--seed", str(arguments.seed)]
        done = subprocess.run(
            [*command, "--child", own], env={**os.environ, **QUIET}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        log = done.stderr.decode("utf-8", "replace")
        if not (folder / "counts").exists():
            raise SystemExit(f"the fuzzing does not begin: {log.strip().splitlines()[-1:]}")
        faults = (folder / "faults").read_text().splitlines() if (folder / "faults").exists() else []
        if done.returncode:
            faults.append(f"{name}\tthe process ended with {done.returncode}: {reason(log)}")
        counts = json.loads((folder / "counts").read_text())
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            for path in (folder / "failed").iterdir():
                (arguments.keep / path.name).write_bytes(path.read_bytes())
    for fault in faults:
        print(f"  {fault}", flush=True)
    reached, kept = (int(found[-1]) if (found := re.findall(rf"\b{key}: (\d+)", log)) else 0 for key in ("cov", "corp"))
    took = time.perf_counter() - started
    total = counts["loaded"] + counts["refused"]
    print(
        f"{name}: {total:,} inputs loaded or refused ({counts['loaded']:,} loaded), {len(faults)} failures, "
        f"{reached:,} branches of the library reached, {kept:,} inputs kept for that; {took:.0f} s",
        flush=True,
    )
    return {
        "runs": arguments.runs,
        "seed": arguments.seed,
        **counts,
        "failures": faults,
        "branches_reached": reached,
        "inputs_kept": kept,
        "seconds": round(took, 1),
    }


def reason(log: str) -> str:
    """What libFuzzer wrote of the end of a process."""
    lines = [line for line in log.splitlines() if "ERROR" in line or "SUMMARY" in line]
    return " ".join(lines or log.strip().splitlines()[-1:])[:300]


def note(name: str, result: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Into the result file, beside those of the other readers."""
    from result_files import FOLDER, write_result

    path = FOLDER / f"{RESULT}.json"
    known = json.loads(path.read_text("utf-8"))["readers"] if path.exists() else {}
    results = {each: known[each] for each in TARGETS if each in known} | {name: result}
    command = f"python benchmarks/fuzz_coverage.py --runs {arguments.runs} --seed {arguments.seed}"
    totals = {key: sum(each[key] for each in results.values()) for key in ("runs", "loaded", "refused")}
    failures = sum(len(each["failures"]) for each in results.values())
    write_result(RESULT, command, {**totals, "failures": failures, "readers": results})


def again(name: str, given: bytes) -> None:
    """Load one input in this process, with the traceback of what is raised."""
    with tempfile.TemporaryDirectory() as place:
        readers = target(name, Path(place))
        slot = readers.slot(given)
        path = slot.folder / slot.name
        print(f"{slot.name} of {len(given)} bytes", flush=True)
        found = readers.run(given)
        path.write_bytes(given[2:])
        try:
            slot.load(slot.folder)
        except BaseException:
            traceback.print_exc()
    print(found or "it was loaded, or refused as it should be")
    sys.exit(found is not None)


if __name__ == "__main__":
    main()
