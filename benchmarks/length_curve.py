"""BLEU by sentence length on joined Multi30k pairs: an RNN without attention, with attention, a Transformer.

    python benchmarks/length_curve.py [--data DIR] [--minutes 45] [--out runs/length-curve] [KEY=VALUE ...]
    python benchmarks/length_curve.py --draw     # only the picture, from the result file

Multi30k sentences are short, so every split joins one to four consecutive pairs (data.join=4): 4 to more than 60 words.
Each model trains for at most so many minutes; a run that is there already is resumed, so the same command goes on after
an interruption. The joined test split is scored once for each model, with its recipe's own search.
"""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from regard.tasks.metrics import LengthBucket
from regard.views.curve import length_curve
from result_files import FOLDER, write_result
from trainings import trained

RECIPES = ("multi30k-rnn", "multi30k-bahdanau", "multi30k-transformer")
NAME = "length-curve"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / f"{NAME}.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--minutes", type=float, default=45, help="training time of each model")
    parser.add_argument("--out", default=f"runs/{NAME}")
    parser.add_argument("--draw", action="store_true", help="only draw the result file again")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    if not arguments.draw:
        measure(arguments)
    draw()


def measure(arguments: argparse.Namespace) -> None:
    overrides = ["data.join=4", f"training.minutes={arguments.minutes}", *arguments.overrides]
    command = f"python benchmarks/length_curve.py --minutes {arguments.minutes:g} {shlex.join(arguments.overrides)}"
    models = {}
    for recipe in RECIPES:
        models[recipe] = measured(recipe, overrides, Path(arguments.out) / recipe, arguments.data)
        print(recipe, f"BLEU {models[recipe]['bleu']:.2f}", flush=True)
        write_result(NAME, command.strip(), {"overrides": overrides, "models": models})


def measured(recipe: str, overrides: list[str], folder: Path, data: str | None) -> dict[str, Any]:
    """Train what is not trained yet, then score the joined test split."""
    run, outcome = trained(folder, recipe, overrides, data)
    return {
        "config": run.config(),
        "parameters": sum(each.numel() for each in regard.load(folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "epochs": outcome.progress.epoch,
        **runner.evaluate(folder, "test", data=data).as_dict(),
    }


def draw() -> None:
    path = FOLDER / f"{NAME}.json"
    if not path.exists():
        raise SystemExit(f"{path} is not there yet; run this without --draw first")
    models = json.loads(path.read_text("utf-8"))["models"]
    curves = {name: [LengthBucket(**row) for row in model["bleu_by_length"]] for name, model in models.items()}
    length_curve(curves, PICTURE)
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
