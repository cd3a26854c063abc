"""Whether a change makes regard slower: this version against an earlier commit, with a control.

    python benchmarks/before_after.py BASE [--after COMMIT] [--jobs translate,...] [--rounds 31] [--most 101] [-o FILE]

The sources of the commit BASE and of the working tree (or of another commit) are exported into temporary folders. Three
processes do the same work: `before`, `before again` (the control: the same sources in a second process) and `after`.
They must give the same texts, vectors within 1e-5, and losses within 0.1 %, or nothing is measured. Then they take
turns, never at once, in an order that changes from round to round. What counts is the median over the rounds of the
ratio seconds before / seconds after, with its 95 % interval. After `--rounds` rounds more are added until the interval
is at most 0.04 wide, at most `--most` in all.

    holds            the median ratio is at least 0.98
    missed           it is less
    cannot be told   the interval is still wider than 0.04, the control's interval does not contain 1, or there were
                     fewer than 31 rounds

Jobs: translate (Transformer-base, 5 beams), generate (GPT-2), encode (BERT-base), single (one text at a time), train
(steps of a Transformer), train-rnn (steps of Bahdanau's and Luong's translators), start (`import regard` and
`regard --help` in fresh processes). All weights are random. The exit code is 1 if a job missed, 2 if one cannot be told
and none missed. Results go into results/before-after.json or FILE.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from compare.checkouts import Checkout, export_commit, exported
from compare.checkpoints import QUICK, SIZES, write_all
from compare.intervals import CANNOT_BE_TOLD, MISSED, summary, verdict
from compare.sides import AFTER, AGAIN, BEFORE, Side, difference, measured, ratios

JOBS = {
    "translate": ["translate"],
    "generate": ["generate"],
    "encode": ["encode"],
    "single": ["single"],
    "train": ["train"],
    "train-rnn": ["train-rnn"],
    "start": ["start-import", "start-help"],
}
NAME = "before-after"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="The commit to compare with.")
    parser.add_argument("--after", metavar="COMMIT", help="The commit to measure. Default: the working tree.")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"Of {', '.join(JOBS)}. Default: all.")
    parser.add_argument("--rounds", type=int, default=31, help="The least number of rounds.")
    parser.add_argument("--most", type=int, default=101, help="The largest number of rounds.")
    parser.add_argument("--quick", action="store_true", help="Tiny models and 3 rounds, to see that everything runs.")
    parser.add_argument("-o", "--output", type=Path, help=f"The result file. Default: results/{NAME}.json.")
    arguments = parser.parse_args()
    jobs = arguments.jobs.split(",")
    if unknown := [job for job in jobs if job not in JOBS]:
        parser.error(f"--jobs: there is no job {unknown[0]!r}; choose from {', '.join(JOBS)}")
    rounds, most = (3, 3) if arguments.quick else (arguments.rounds, max(arguments.rounds, arguments.most))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = export_commit(arguments.base, folder / "before")
        after = exported(arguments.after, folder / "after")
        write_all(folder / "work", jobs, QUICK if arguments.quick else SIZES)
        checkouts = {BEFORE: before, AGAIN: before, AFTER: after}
        workloads = [workload for job in jobs for workload in JOBS[job]]
        found = {workload: one_workload(workload, checkouts, folder / "work", rounds, most) for workload in workloads}
    from result_files import write_result

    command = " ".join(["python benchmarks/before_after.py", *sys.argv[1:]])
    numbers = {"before": before.record(), "after": after.record(), "workloads": found}
    print(f"wrote {write_result(NAME, command, numbers, arguments.output)}")
    verdicts = [result["verdict"] for result in found.values()]
    if not arguments.quick:
        sys.exit(1 if MISSED in verdicts else 2 if CANNOT_BE_TOLD in verdicts else 0)


def one_workload(workload: str, checkouts: dict[str, Checkout], folder: Path, rounds: int, most: int) -> dict[str, Any]:
    print(workload, flush=True)
    sides = {
        name: Side(checkout, workload, folder, folder / f"{workload}-{number}.log")
        for number, (name, checkout) in enumerate(checkouts.items())
    }
    try:
        outputs = {name: side.output() for name, side in sides.items()}
        for name, output in outputs.items():
            if found := difference(outputs[BEFORE], output):
                raise SystemExit(f"{workload}: {BEFORE!r} and {name!r} differ, so nothing is measured: {found}")
        for side in sides.values():
            side.seconds()  # the second time to warm up
        seconds = measured({name: side.seconds for name, side in sides.items()}, rounds, most)
    finally:
        for side in sides.values():
            side.end()
    return result(seconds)


def result(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """The verdict with all it was made from; also printed."""
    change, control = ratios(seconds, AFTER), ratios(seconds, AGAIN)
    found, reason = verdict(change, control)
    record = {
        "verdict": found,
        "reason": reason,
        "rounds": len(change),
        "median_seconds": {name: round(median(values), 4) for name, values in seconds.items()},
        "before_to_after": summary(change),
        "control": summary(control),
    }
    for name in ("before_to_after", "control"):
        low, high = record[name]["interval"]
        print(f"  {name.replace('_', ' ')}: {record[name]['median']:.3f} [{low:.3f}, {high:.3f}]")
    print(f"  {found}: {reason}", flush=True)
    return record


if __name__ == "__main__":
    main()
