"""Fashion-MNIST: train `fashion-vit`, score validation and test, write results/fashion-vit.json.

    python benchmarks/fashion_vit.py [--data DIR] [--out runs/fashion-vit] [--minutes 40] [--seeds 0,1] [KEY=VALUE ...]

A run that is in --out already is used (and resumed if it is not finished). The best checkpoint is chosen on the
validation split; the test split is scored once, at the end.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import regard
from regard.recipes import load_recipe, runner
from result_files import write_result
from trainings import trained

RECIPE = "fashion-vit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("--minutes", type=float, default=40.0, help="of training at most, for each seed")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    rows = [measure(int(seed), arguments) for seed in arguments.seeds.split(",")]
    accuracy = mean(row["test"]["accuracy"] for row in rows)
    command = f"python benchmarks/fashion_vit.py --minutes {arguments.minutes:g} --seeds {arguments.seeds}"
    path = write_result(
        RECIPE,
        " ".join([command, *arguments.overrides]),
        {"config": load_recipe(RECIPE, arguments.overrides).resolved(), "test_accuracy": accuracy, "runs": rows},
    )
    print(f"test accuracy {100 * accuracy:.2f} %; wrote {path}")


def measure(seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one seed to its end and score it."""
    folder = Path(arguments.out) / f"seed-{seed}"
    own = [f"training.seed={seed}", f"training.minutes={arguments.minutes}"]
    run, outcome = trained(folder, RECIPE, [*arguments.overrides, *own], arguments.data)
    progress = outcome.progress
    print(f"seed {seed}: {progress.step} steps in {progress.seconds:.0f} s ({outcome.reason})", flush=True)
    return {
        "seed": seed,
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": progress.seconds,
        "steps": progress.step,
        "epochs": progress.epoch,
        "valid": runner.evaluate(run.folder, "valid", data=arguments.data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
        "curve": [
            {key: row[key] for key in ("step", "loss", "seconds", "valid_nll", "valid_accuracy")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }


if __name__ == "__main__":
    main()
