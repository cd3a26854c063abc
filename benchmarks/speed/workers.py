"""Whether several processes translate faster than one with several threads: Transformer-base, 500 sentences.

One side is a process with all threads, as `regard translate` runs; the other as many processes with a thread each,
every one with its own copy of the model and every n-th sentence in order of length. Both are warm, and must say the
same.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from speed.apart import Apart
from speed.rounds import ROUNDS, compare
from speed.translate import Ask, Rows, ours, sentences, written


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks workers", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--beams", default="5,1")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    rows = sorted(sentences(arguments.data, arguments.sentences), key=len)
    processes = torch.get_num_threads()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, arguments.quick)
        for int8 in (False, True):
            together = Apart(ours, folder, int8)
            workers = [Apart(on_one_thread, folder, int8) for _ in range(processes)]
            for beams in map(int, arguments.beams.split(",")):
                case = f"{'8 bits' if int8 else 'whole'}, {beams} beams"
                print(case, flush=True)
                found[case] = one_case(rows, beams, together, workers, arguments.rounds)
    return {"sentences": len(rows), "processes": processes, "cases": found}


def on_one_thread(folder: Path, int8: bool) -> Ask:
    torch.set_num_threads(1)
    return ours(folder, int8)


def one_case(rows: Rows, beams: int, together: Apart, workers: list[Apart], rounds: int) -> dict[str, Any]:
    parts = [rows[number :: len(workers)] for number in range(len(workers))]

    def side_by_side() -> list[Rows]:
        for worker, part in zip(workers, parts, strict=True):
            worker.ask(part, beams)
        return [worker.answer() for worker in workers]

    same = sum(
        one == other
        for number, part in enumerate(side_by_side())
        for one, other in zip(part, together(rows, beams)[number :: len(workers)], strict=True)
    )
    if same < 0.9 * len(rows):  # near ties of random weights may fall either way, in 8 bits more often
        raise SystemExit(f"both say the same {same} of {len(rows)} times: nothing is measured")
    sides = {"processes": side_by_side, "threads": lambda: together(rows, beams)}
    return compare(sides, {("processes", "threads"): None}, rounds)
