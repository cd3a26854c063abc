"""Wrong operands for everything that reaches the C kernels: torch's answer or an exception each time, never a signal.

    python benchmarks/fuzz_calls.py [--cases 10000] [--seed 0]
    python benchmarks/fuzz_calls.py --case NUMBER [--seed 0]    one case again, with what came out of it

A case is a function, operands that suit it, of which some are then given another shape, dtype, device, layout or class
(`fuzz/operands.py`), and a mode of torch: inference, gradients, autocast, tracing, function transforms. It is computed
twice, with the kernels and in plain torch. It fails if both give results that differ, if only one of the two raises an
exception, or if the process ends. Every failure is printed with the number of its case. Exit code 1 if there was one.
The counts go into results/fuzz-calls.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from fuzz import calls

RESULT = "fuzz-calls"
CRASHES = 20  # after which the run is given up
RESTART = 75  # exit code of a process in which torch has left its own state changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="Run this one again.")
    parser.add_argument("--no-result", action="store_true", help="Do not write the result file.")
    parser.add_argument("--work", nargs=2, metavar=("FIRST", "JOURNAL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.seed, int(arguments.work[0]), arguments.cases, Path(arguments.work[1]))
    if arguments.case is not None:
        return again(arguments.seed, arguments.case)
    started = time.perf_counter()
    outcomes = run(arguments.seed, arguments.cases)
    counts = Counter(outcome["kind"] for outcome in outcomes)
    failures = [outcome for outcome in outcomes if outcome["kind"] in calls.FAILURES]
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.most_common()), f"; {len(failures)} failures", sep="")
    if not arguments.no_result:
        note(arguments, outcomes, counts, failures, time.perf_counter() - started)
    sys.exit(bool(failures))


def note(arguments: argparse.Namespace, outcomes: Any, counts: Any, failures: Any, seconds: float) -> None:
    from result_files import write_result

    functions = {
        name: dict(Counter(outcome["kind"] for outcome in outcomes if outcome["function"] == name))
        for name in calls.FUNCTIONS
    }
    numbers = {
        "cases": len(outcomes),
        "outcomes": dict(counts),
        "failures": failures,
        "seconds": round(seconds, 1),
        "functions": functions,
    }
    write_result(RESULT, f"python benchmarks/fuzz_calls.py --cases {arguments.cases} --seed {arguments.seed}", numbers)


def run(seed: int, cases: int) -> list[dict[str, Any]]:
    """What came of all cases, computed in one process; after a crash, another goes on."""
    outcomes: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        crashes = 0
        while crashes < CRASHES:
            command = [sys.executable, __file__, "--cases", str(cases), "--seed", str(seed)]
            ended = subprocess.run([*command, "--work", str(len(outcomes)), str(journal)])
            lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
            done = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
            outcomes += done
            for outcome in done:
                if outcome["kind"] in calls.FAILURES:
                    print(f"  case {outcome['case']}: {outcome['kind']}: {outcome['what']}", flush=True)
            if len(outcomes) >= cases or not ended.returncode:
                break
            if ended.returncode == RESTART:
                print(
                    f"  case {len(outcomes)}: continued in a new process: torch excludes other dispatch keys",
                    flush=True,
                )
                continue
            crashes += 1
            what = f"{lines[-1] if lines else 'before the first case'}: exit code {ended.returncode}"
            print(f"  case {len(outcomes)}: the process ended: {what}", flush=True)
            outcomes.append({"case": len(outcomes), "kind": "the process ended", "what": what, "function": "?"})
            journal.unlink(missing_ok=True)
    return outcomes


def work(seed: int, first: int, cases: int, journal: Path) -> None:
    """Run cases in this process, and write a line about each."""
    calls.prepare()
    keys = dispatch_keys()
    with journal.open("w", encoding="utf-8") as file:
        for number in range(first, cases):
            case = calls.Case(seed, number)
            print(f"# {case.name}, {case.mode.__name__}", file=file, flush=True)  # before anything can end the process
            print(f"# {case}", file=file, flush=True)
            print(json.dumps({"case": number, **case.outcome()}), file=file, flush=True)
            if dispatch_keys() != keys:
                sys.exit(RESTART)


def dispatch_keys() -> tuple[str, str]:
    """The dispatch keys that torch adds and passes over in this thread. After some exceptions inside of vmap or forward
    differentiation, with the kernels off as well, they stay changed: autograd or autocast is then off for good."""
    return str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())


def again(seed: int, number: int) -> None:
    """Run one case in this process."""
    calls.prepare()
    case = calls.Case(seed, number)
    print(case, flush=True)
    for with_kernels in (False, True):
        print("with kernels:" if with_kernels else "plain torch:", flush=True)
        print(case.result(with_kernels), flush=True)
    print(case.outcome())


if __name__ == "__main__":
    main()
