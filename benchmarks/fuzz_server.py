"""Spoilt requests for every endpoint of the server: each must be answered, or refused with one sentence.

    python benchmarks/fuzz_server.py [--cases 20000] [--seed 0] [--endpoint NAME ...] [--jobs 1] [--no-result]
    python benchmarks/fuzz_server.py --endpoint NAME --case NUMBER [--seed 0]    one case again, with its traceback

A case is a good request of an endpoint that was spoilt: fields of JSON replaced by others of another kind, size or
depth, fields of other endpoints, images with changed chunks, in other formats or in base64 that is none, multipart
forms with odd names and heads, other content types, bits flipped, pieces cut out, doubled or moved
(`fuzz/requests.py`). The server, around tiny models of every kind, is in one process for each endpoint, and gets the
requests as ASGI messages. A case fails at

- any 5xx, any exception, an answer that is no JSON, or a refusal that is not one line of at most 1,000 characters;
- more than 5 seconds until the answer (the server itself then says 504), or 15 seconds of computing;
- a signal: a crash, or more than 1 GB of memory beyond what the process had at the beginning;
- a process that has grown by more than 256 MB since its first 150 cases.

Every failure is printed with the seed and the number of its case. Exit code 1 if there was one. What came out of each
endpoint goes into results/fuzz-server.json; those of other calls stay there.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fuzz.requests import ENDPOINTS
from fuzz.running import QUIET, parts
from fuzz.server import SECONDS, Bench, serve, work

RESULT = "fuzz-server"
TESTS = Path(__file__).parents[1] / "tests"  # which have tiny models of every kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000, help="For each endpoint.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--endpoint", nargs="+", choices=ENDPOINTS, metavar="NAME", help=", ".join(ENDPOINTS))
    parser.add_argument("--jobs", type=int, default=1, help="Processes at once, for each endpoint.")
    parser.add_argument("--case", type=int, help="Run this one again.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="Until an answer.")
    parser.add_argument("--no-result", action="store_true", help="Write no result file.")
    parser.add_argument("--work", nargs=3, metavar=("FIRST", "LAST", "JOURNAL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = arguments.endpoint or ENDPOINTS
    if arguments.work:
        first, last, journal = arguments.work
        with Bench(chosen[0], serve(models(), arguments.seconds)) as bench:
            return work(bench, arguments.seed, int(first), int(last), Path(journal))
    if arguments.case is not None:
        return again(chosen[0], arguments)
    failed = 0
    for endpoint in chosen:
        result = fuzzed(endpoint, arguments)
        failed += len(result["failures"])
        if not arguments.no_result:
            note(endpoint, result, arguments)
    print(f"{failed} failures")
    sys.exit(failed > 0)


def models() -> dict[str, Any]:
    """Tiny models of every kind, by name."""
    sys.path.insert(0, str(TESTS))
    from explorer.tiny_models import everything, mixing, older

    with tempfile.TemporaryDirectory() as folder:
        return {**everything(Path(folder)), **older(), "mixing": mixing()}


def fuzzed(endpoint: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases of one endpoint."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--endpoint", endpoint, "--seed", str(arguments.seed)]
    command += ["--seconds", str(arguments.seconds), "--work"]

    def tell(failure: str) -> None:
        number, _, what = failure.partition("\t")
        print(f"  {endpoint}, seed {arguments.seed}, case {number}: {what}", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(lambda part: part.run(tell), parts(command, arguments.cases, arguments.jobs)))
    answered, refused = sum(counts.loaded for counts, _ in done), sum(counts.refused for counts, _ in done)
    failures = [failure for counts, _ in done for failure in counts.faults]
    slowest, seconds = max((slow for _, slow in done), key=lambda known: known[1])
    took = time.perf_counter() - started
    print(
        f"{endpoint}: {answered + refused + len(failures):,} cases, {answered:,} answered, {refused:,} refused, "
        f"{len(failures)} failed; the slowest ({slowest}) computed {seconds:.2f} s; {took:.0f} s in all",
        flush=True,
    )
    return {
        "cases": answered + refused + len(failures),
        "answered": answered,
        "refused": refused,
        "failures": failures,
        "slowest_case": slowest,
        "slowest_seconds": round(seconds, 3),
        "seconds": round(took, 1),
    }


def note(endpoint: str, result: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Into the result file, beside those of the other endpoints."""
    from result_files import FOLDER, write_result

    path = FOLDER / f"{RESULT}.json"
    known = json.loads(path.read_text("utf-8"))["endpoints"] if path.exists() else {}
    results = {each: known[each] for each in ENDPOINTS if each in known} | {endpoint: result}
    totals = {
        "endpoints_fuzzed": len(results),
        "cases": sum(each["cases"] for each in results.values()),
        "failures": sum(len(each["failures"]) for each in results.values()),
    }
    command = f"python benchmarks/fuzz_server.py --cases {arguments.cases} --seed {arguments.seed}"
    write_result(RESULT, command, {**totals, "endpoints": results})


def again(endpoint: str, arguments: argparse.Namespace) -> None:
    """Send one request in this process and say what comes of it."""
    import traceback

    os.environ.update(QUIET)
    with Bench(endpoint, serve(models(), arguments.seconds)) as bench:
        request = bench.request(arguments.seed, arguments.case)
        print(f"POST {request.path} with {request.media!r}: {len(request.content)} bytes, {request.content[:1000]!r}")
        found = bench.case(arguments.seed, arguments.case)
        if bench.error is not None:
            traceback.print_exception(bench.error)
    print("it was answered" if found is None else found or "it was refused as it should be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
