"""Omniglot: train `omniglot-snail` for 5 and 20 ways, 1 and 5 shots; accuracy over 1,000 episodes of unseen characters.

    python benchmarks/omniglot_snail.py [--data DIR] [--out runs/omniglot] [--minutes 45] [--tasks 5x1 5x5 20x1 20x5]
                                        [KEY=VALUE ...]

Runs that are in --out already are used, and resumed if they are not finished. The best checkpoint is chosen on
validation characters; the test characters are scored once, at the end. Writes results/omniglot-snail.json; numbers of
tasks that are measured in another call are kept.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from result_files import FOLDER, write_result
from trainings import trained

RECIPE = "omniglot-snail"
# Some 320 to 400 pictures a step: 32 episodes of 10, 8 of 50, 8 of 40, and 3 of 120. Where examples are many, five
# queries of each class share them: a step learns from queries, and examples are most of its cost.
TASKS = {
    "5x1": [],
    "5x5": ["data.shots=5", "data.queries=5", "training.batch_tokens=400", "training.steps=4500"],
    "20x1": ["data.ways=20", "training.steps=3000"],
    "20x5": ["data.ways=20", "data.shots=5", "training.batch_tokens=360"],
}
MORE_SHOTS = {"5x1": (5,), "5x5": (), "20x1": (5,), "20x5": ()}  # than trained with: matched in rounds, as a user would
PUBLISHED = {"5x1": 0.9907, "5x5": 0.9978, "20x1": 0.9764, "20x5": 0.9936}  # Mishra et al. 2018


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default="runs/omniglot")
    parser.add_argument("--minutes", type=float, default=45.0, help="of training at most, for each task")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=["5x1", "5x5"])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    rows = earlier()
    for name in arguments.tasks:
        rows[name] = measured(name, arguments)
        low, high = rows[name]["test"]["accuracy_interval"]
        print(f"{name}: {100 * rows[name]['test']['accuracy']:.2f} % [{100 * low:.2f}, {100 * high:.2f}]", flush=True)
        command = (
            f"python benchmarks/omniglot_snail.py --minutes {arguments.minutes:g} --tasks {' '.join(sorted(rows))}"
        )
        path = write_result(RECIPE, " ".join([command, *arguments.overrides]), {"tasks": rows, "published": PUBLISHED})
    print(f"wrote {path}")


def earlier() -> dict[str, Any]:
    path = FOLDER / f"{RECIPE}.json"
    return dict(json.loads(path.read_text("utf-8"))["tasks"]) if path.exists() else {}


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one task to its end and score it."""
    folder = Path(arguments.out) / name
    own = [*TASKS[name], f"training.minutes={arguments.minutes}", *arguments.overrides]
    run, outcome = trained(folder, RECIPE, own, arguments.data)
    matcher = regard.load(run.folder)
    evaluate = partial(runner.evaluate, run.folder, data=arguments.data)
    return {
        "config": run.config(),
        "parameters": sum(each.numel() for each in matcher.model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "best_step": outcome.progress.best_step,
        "valid": evaluate("valid").as_dict(),
        "test": evaluate("test").as_dict(),
        "test_with_more_shots": {str(shots): evaluate("test", shots=shots).as_dict() for shots in MORE_SHOTS[name]},
        "curve": [
            {key: row[key] for key in ("step", "loss", "seconds", "valid_nll", "valid_accuracy")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }


if __name__ == "__main__":
    main()
