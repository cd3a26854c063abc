"""Copy: a Neural Turing Machine and an LSTM, equally many minutes each; wrong bits at lengths 10 to 100.

    python benchmarks/copy_ntm.py [--minutes 20] [--out runs/copy] [--models ntm lstm lstm-rmsprop] [KEY=VALUE ...]

Both learn from lengths 1 to 20 alone. Runs that are in --out already are used, and resumed if they are not finished.
The LSTM has the paper's size, three layers of 256, and the recipe's optimiser; `lstm-rmsprop` has the paper's. The NTM
ends after the recipe's steps if these take less time. Writes results/copy-ntm.json and the picture of the trained
memory to docs/images/ntm-copy.svg.
"""

import argparse
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from regard.training.loop import Outcome
from regard.training.run import Run
from regard.views.memory import memory_figure
from result_files import write_result
from trainings import trained

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "ntm-copy.svg"
WITHOUT_END = ["training.steps=1000000", "training.schedule=constant"]  # until the minutes are over
LSTM = ["model={preset: lstm:paper}", *WITHOUT_END]
MODELS = {
    "ntm": [],
    "lstm": LSTM,
    "lstm-rmsprop": [*LSTM, "training.optimizer=rmsprop", "training.betas=[0.9, 0.95]", "training.learning_rate=3e-5"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--out", default="runs/copy")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["ntm", "lstm"])
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="for all of the models, such as training.seed=1"
    )
    arguments = parser.parse_args()
    budget = [f"training.minutes={arguments.minutes}"]
    rows: dict[str, Any] = {}
    for name in arguments.models:
        folder = Path(arguments.out) / name
        run, outcome = trained(folder, "copy-ntm", [*MODELS[name], *budget, *arguments.overrides], None)
        rows[name] = measured(run, outcome)
        print(name, {known["length"]: known["wrong_bits"] for known in rows[name]["test"]["lengths"]}, flush=True)
    if "ntm" in rows:
        solver = regard.load(Path(arguments.out) / "ntm")
        memory_figure(solver.look("copy:20"), PICTURE, title="copy of 20 vectors")
    command = " ".join(["python benchmarks/copy_ntm.py", f"--minutes {arguments.minutes:g}", *arguments.overrides])
    print(f"wrote {write_result('copy-ntm', command, {'minutes': arguments.minutes, 'models': rows})}")


def measured(run: Run, outcome: Outcome) -> dict[str, Any]:
    keys = ("step", "seconds", "valid_nll", "valid_wrong_bits", "valid_bits_per_sequence")
    return {
        "config": run.config(),
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "best_step": outcome.progress.best_step,
        "test": runner.evaluate(run.folder, "test").as_dict(),
        "curve": [{key: row[key] for key in keys} for row in run.read_metrics() if "valid_nll" in row],
    }


if __name__ == "__main__":
    main()
