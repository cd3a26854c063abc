"""Say it backwards with every score and every alignment: is it learnt, and is the attention the anti-diagonal?

    python benchmarks/reversal.py [--out runs/reversal] [--only general/soft ...]

For each of the 24 pairs: exact reversals of unseen sequences, and how many of their symbols the attention finds (its
argmax row by row against the gold links). What the encoder says of a place tells of its neighbours too, so a model may
settle on the line beside the anti-diagonal; `shift` says on which line it is (0: the anti-diagonal, 1: the symbol after
the one that is said).
"""

import argparse
import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import regard
from regard.attention import ALIGNMENTS
from regard.data.reversal import reversal
from regard.recipes import load_recipe, runner
from result_files import FOLDER, write_result

NAME = "reversal"
SCORES = ("dot", "scaled_dot", "general", "additive", "cosine", "location")
SHIFTS = (0, 1, -1)
Link = tuple[int, int]  # source place, target place
PAIRS = [f"{score}/{align}" for score, align in product(SCORES, ALIGNMENTS)]


def measure(pair: str, out: Path) -> dict[str, Any]:
    score, align = pair.split("/")
    folder = out / pair.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    longer = ["training.steps=2500"] if align == "hard" else []  # its lessons are drawn: they are noisy
    recipe = load_recipe("reversal-luong", [f"model.score={score}", f"model.align={align}", *longer])
    _, outcome = runner.train(recipe, folder)
    if outcome.reason == "stopped":
        raise SystemExit("stopped; the same command goes on with the pairs that are missing")
    translator = regard.load(folder)
    test = list(reversal(folder, "test"))
    said = translator.translate([known.source for known in test])
    links = translator.align([known.source for known in test], [known.target for known in test])
    gold = [set(known.links or ()) for known in test]
    on_line = {shift: share_on_line(gold, links, shift) for shift in SHIFTS}
    shift = max(SHIFTS, key=lambda line: on_line[line])
    return {
        "exact": sum(result.text == known.target for result, known in zip(said, test, strict=True)) / len(test),
        "anti_diagonal": on_line[shift],
        "shift": shift,
        "steps": outcome.progress.step,
        "seconds": round(outcome.progress.seconds, 1),
    }


def share_on_line(gold: list[set[Link]], links: list[set[Link]], shift: int) -> float:
    """How many rows of the maps have their maximum on the anti-diagonal, moved by `shift` where that is in the map."""
    lines = [
        {(source + shift, target) for source, target in known if 0 <= source + shift < len(known)} for known in gold
    ]
    return sum(len(line & found) for line, found in zip(lines, links, strict=True)) / sum(map(len, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=f"runs/{NAME}", type=Path)
    parser.add_argument("--only", nargs="*", choices=PAIRS)
    arguments = parser.parse_args()
    path = FOLDER / f"{NAME}.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8"))["pairs"] if path.exists() else {}
    for pair in arguments.only or [pair for pair in PAIRS if pair not in known]:
        known[pair] = measure(pair, arguments.out)
        ordered = {pair: known[pair] for pair in PAIRS if pair in known}
        write_result(NAME, "python benchmarks/reversal.py", {"test_sequences": 500, "pairs": ordered})
        print(f"{pair}: {known[pair]}", flush=True)


if __name__ == "__main__":
    main()
