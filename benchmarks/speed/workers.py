"""Whether several processes translate faster than one with several threads: two Transformers, 500 sentences.

One side decodes on all threads; the other gives its batches to as many processes (regard.decoding.workers), which share
the threads. Both are warm, and must say the same. Each side has a process of its own.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from speed.apart import Apart
from speed.rounds import ROUNDS, compare
from speed.translate import Rows, ours, sentences, written


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks workers", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--sizes", default="base,small")
    parser.add_argument("--beams", default="5,1")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    rows = sentences(arguments.data, arguments.sentences)
    processes = torch.get_num_threads()
    found = {}
    for size in ["tiny"] if arguments.quick else arguments.sizes.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            written(folder, size)
            for int8 in (False, True):
                sides = {
                    "processes": Apart(ours, folder, int8, processes),
                    "threads": Apart(ours, folder, int8),
                }
                for beams in map(int, arguments.beams.split(",")):
                    case = f"{size}, {'8 bits' if int8 else 'whole'}, {beams} beams"
                    print(case, flush=True)
                    found[case] = one_case(rows, beams, sides, arguments.rounds)
                for side in sides.values():
                    side.end()
    return {"sentences": len(rows), "processes": processes, "cases": found}


def one_case(rows: Rows, beams: int, sides: dict[str, Apart], rounds: int) -> dict[str, Any]:
    answers = [side(rows, beams) for side in sides.values()]
    same = sum(one == other for one, other in zip(*answers, strict=True))
    if same < 0.9 * len(rows):  # near ties of random weights may fall either way, in 8 bits more often
        raise SystemExit(f"both say the same {same} of {len(rows)} times: nothing is measured")
    works = {name: (lambda side=side: side(rows, beams)) for name, side in sides.items()}
    return compare(works, {("processes", "threads"): None}, rounds)
