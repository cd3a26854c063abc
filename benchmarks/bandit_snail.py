"""Bandits: train `bandit-snail` for games of 10, 20 and more pulls; what it wins beside UCB1, Thompson and Gittins.

    python benchmarks/bandit_snail.py [--out runs/bandit] [--minutes 30] [--pulls 10 20 50] [KEY=VALUE ...]

Runs that are in --out already are used, and resumed if they are not finished. All players meet the same 1,000 bandits
with the same luck, so that differences are compared game by game. Writes results/bandit-snail.json.
"""

import argparse
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE = "bandit-snail"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="runs/bandit")
    parser.add_argument("--minutes", type=float, default=30.0, help="of training at most, for each number of pulls")
    parser.add_argument("--pulls", nargs="+", type=int, default=[10, 20, 50])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    rows: dict[str, Any] = {}
    for pulls in arguments.pulls:
        rows[str(pulls)] = measured(pulls, arguments)
        won = {name: round(known["reward"], 2) for name, known in rows[str(pulls)]["test"]["players"].items()}
        print(f"{pulls} pulls: {won}", flush=True)
    told = " ".join(map(str, arguments.pulls))
    command = f"python benchmarks/bandit_snail.py --minutes {arguments.minutes:g} --pulls {told}"
    print(f"wrote {write_result(RECIPE, ' '.join([command, *arguments.overrides]), {'pulls': rows})}")


def measured(pulls: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train for games of one length to the end, and play against the others."""
    folder = Path(arguments.out) / f"pulls-{pulls}"
    own = [f"data.pulls={pulls}", f"training.minutes={arguments.minutes}", *arguments.overrides]
    run, outcome = trained(folder, RECIPE, own, None)
    return {
        "config": run.config(),
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "best_step": outcome.progress.best_step,
        "test": runner.evaluate(run.folder, "test").as_dict(),
        "curve": [
            {key: row[key] for key in ("step", "loss", "seconds", "valid_nll", "valid_reward")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }


if __name__ == "__main__":
    main()
