"""Spoilt files for every loader: each case must load, or be refused with one typed error of one line.

    python benchmarks/fuzz_loaders.py [--cases 20000] [--seed 0] [--loader NAME ...] [--jobs 2]
    python benchmarks/fuzz_loaders.py --loader NAME --case NUMBER [--seed 0]    one case again, with its traceback

A case is one whole example of what a loader reads with one of its files spoilt: bits flipped, pieces cut out, doubled
or moved, values of JSON and YAML replaced by others of another kind, size or depth, lines and cells changed, headers of
containers rewritten with right checksums, names that lead elsewhere, and more (`fuzz/mutations.py`). It fails if the
loader raises anything but a RegardError, if the message is not one line of less than 600 characters, if the process
crashes, if the case computes for more than 5 seconds, or if it asks for more than 1 GB of memory. Every failure is
printed with the number of its case. Exit code 1 if there was one. What came out of each loader goes into
results/fuzz-loaders.json; those of other calls stay there.
"""

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fuzz import faulty
from fuzz.loaders import LOADERS
from fuzz.running import QUIET, SECONDS, Bench, Loader, parts, work

RESULT = "fuzz-loaders"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="For each loader.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loader", nargs="+", choices=[*LOADERS, *faulty.LOADERS], metavar="NAME", help=names())
    parser.add_argument("--jobs", type=int, default=2, help="Processes at once.")
    parser.add_argument("--case", type=int, help="Run this one again.")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="Of computing that a case may take.")
    parser.add_argument("--work", nargs=3, metavar=("FIRST", "LAST", "JOURNAL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = [named(name) for name in arguments.loader or LOADERS]
    if arguments.work:
        first, last, journal = arguments.work
        return work(chosen[0], arguments.seed, int(first), int(last), Path(journal), arguments.seconds)
    if arguments.case is not None:
        return again(chosen[0], arguments.seed, arguments.case)
    failed = 0
    for loader in chosen:
        result = fuzzed(loader, arguments)
        failed += len(result["failures"])
        if loader.name in LOADERS:
            note(loader.name, result, arguments)
    print(f"{failed} failures")
    sys.exit(failed > 0)


def note(name: str, result: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Into the result file, beside those of the other loaders."""
    from result_files import FOLDER, write_result

    path = FOLDER / f"{RESULT}.json"
    known = json.loads(path.read_text("utf-8"))["loaders"] if path.exists() else {}
    results = {each: known[each] for each in LOADERS if each in known} | {name: result}
    totals = {
        "loaders_fuzzed": len(results),
        "cases": sum(each["cases"] for each in results.values()),
        "failures": sum(len(each["failures"]) for each in results.values()),
    }
    command = f"python benchmarks/fuzz_loaders.py --cases {arguments.cases} --seed {arguments.seed}"
    write_result(RESULT, command, {**totals, "loaders": results})


def names() -> str:
    return ", ".join(LOADERS)


def named(name: str) -> Loader:
    return LOADERS[name] if name in LOADERS else faulty.LOADERS[name]


def fuzzed(loader: Loader, arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases of one loader, by several processes."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--loader", loader.name, "--seed", str(arguments.seed)]
    command += ["--seconds", str(arguments.seconds), "--work"]

    def tell(failure: str) -> None:
        number, _, what = failure.partition("\t")
        print(f"  {loader.name}, case {number}: {what}", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(lambda part: part.run(tell), parts(command, arguments.cases, arguments.jobs)))
    loaded, refused = sum(counts.loaded for counts, _ in done), sum(counts.refused for counts, _ in done)
    failures = [failure for counts, _ in done for failure in counts.faults]
    slowest, seconds = max((slow for _, slow in done), key=lambda known: known[1])
    took = time.perf_counter() - started
    print(
        f"{loader.name}: {loaded + refused + len(failures):,} cases, {loaded:,} loaded, {refused:,} refused, "
        f"{len(failures)} failed; the slowest ({slowest}) took {seconds:.2f} s; {took:.0f} s in all",
        flush=True,
    )
    return {
        "about": loader.about,
        "cases": loaded + refused + len(failures),
        "loaded": loaded,
        "refused": refused,
        "failures": failures,
        "slowest_case": slowest,
        "slowest_seconds": round(seconds, 3),
        "seconds": round(took, 1),
    }


def again(loader: Loader, seed: int, number: int) -> None:
    """Run one case in this process and say what comes of it."""
    import os

    os.environ.update(QUIET)

    def loud(folder: Path) -> object:
        print(f"files of the example: {', '.join(sorted(path.name for path in folder.iterdir()))}", flush=True)
        try:
            return loader.load(folder)
        except BaseException:
            import traceback

            traceback.print_exc()
            raise

    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Loader(loader.name, loader.about, loader.examples, loud, loader.spoils), Path(place))
        found = bench.case(seed, number)
    print("it was loaded" if found is None else found or "it was refused as it should be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
