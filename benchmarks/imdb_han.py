"""IMDB: train `imdb-han` and the same network with average and max pooling, score test, write results/.

    python benchmarks/imdb_han.py [--data DIR] [--out runs/imdb-han] [--minutes 30] [--seeds 0,1] [KEY=VALUE ...]

Each network trains from each seed for the recipe's steps, or --minutes if these end earlier. Runs that are in --out
already are used (and resumed if they are not finished). Each run's best checkpoint is chosen on the validation split;
the test split is scored once, at the end.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import regard
from regard.recipes import load_recipe, runner
from result_files import write_result
from trainings import trained

RECIPE = "imdb-han"
POOLINGS = ("attention", "average", "max")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("--minutes", type=float, default=30.0, help="of training, for each run")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    trained = {(pooling, seed): train(pooling, seed, arguments) for seed in seeds for pooling in POOLINGS}
    rows = {pooling: [score(*trained[pooling, seed], seed, arguments.data) for seed in seeds] for pooling in POOLINGS}
    accuracy = {pooling: mean(row["test"]["accuracy"] for row in known) for pooling, known in rows.items()}
    command = f"python benchmarks/imdb_han.py --minutes {arguments.minutes:g} --seeds {arguments.seeds}"
    path = write_result(
        RECIPE,
        " ".join([command, *arguments.overrides]),
        {"config": load_recipe(RECIPE, arguments.overrides).resolved(), "test_accuracy": accuracy, "runs": rows},
    )
    told = ", ".join(f"{pooling} {100 * share:.2f} %" for pooling, share in accuracy.items())
    print(f"test accuracy: {told}; wrote {path}")


def train(pooling: str, seed: int, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The run of one network, trained to its end."""
    folder = Path(arguments.out) / f"{pooling}-{seed}"
    own = [f"model.pooling={pooling}", f"training.seed={seed}", f"training.minutes={arguments.minutes}"]
    run, outcome = trained(folder, RECIPE, [*arguments.overrides, *own], arguments.data)
    progress = outcome.progress
    print(f"{pooling}, seed {seed}: {progress.step} steps in {progress.seconds:.0f} s", flush=True)
    return run, outcome


def score(run: Any, outcome: Any, seed: int, data: str | None) -> dict[str, Any]:
    return {
        "seed": seed,
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "epochs": outcome.progress.epoch,
        "valid": runner.evaluate(run.folder, "valid", data=data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=data).as_dict(),
        "curve": [
            {key: row[key] for key in ("step", "loss", "seconds", "valid_nll", "valid_accuracy")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }


if __name__ == "__main__":
    main()
