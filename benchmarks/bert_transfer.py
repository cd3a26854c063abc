"""What pre-training brings: `sst2-bert` and `mrpc-bert` from a BERT pre-trained on WikiText-2, and from nothing.

    python benchmarks/bert_transfer.py [--data DIR] [--bert runs/wikitext2-bert] [--out runs/transfer] [--seeds 0,1,2]

The run --bert is trained first if it is not there. Both networks are the same; the one from nothing reads pieces of
words learnt from the task's own texts. Runs in --out are used, and resumed if they are not finished. Each run's best
checkpoint is chosen on the validation split; the test split is scored once.
"""

import argparse
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

BERT = "wikitext2-bert"
TASKS = ("sst2-bert", "mrpc-bert")
BEGINNINGS = ("pre-trained", "from nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--bert", default=f"runs/{BERT}")
    parser.add_argument("--out", default="runs/transfer")
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    bert, outcome = trained(arguments.bert, BERT, [], arguments.data)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    numbers: dict[str, Any] = {
        "pre-training": {
            "config": bert.config(),
            "parameters": sum(each.numel() for each in regard.load(bert.folder).model.parameters()),
            "train_seconds": outcome.progress.seconds,
            "steps": outcome.progress.step,
            "valid": runner.evaluate(bert.folder, "valid", data=arguments.data).as_dict(),
            "test": runner.evaluate(bert.folder, "test", data=arguments.data).as_dict(),
        }
    }
    for task in TASKS:
        numbers[task] = {}
        for beginning in BEGINNINGS:
            rows = [measure(task, beginning, seed, arguments) for seed in seeds]
            accuracies = [row["test"]["accuracy"] for row in rows]
            known = {"mean": mean(accuracies), "spread": stdev(accuracies) if len(seeds) > 1 else 0.0, "runs": rows}
            numbers[task][beginning] = known
            print(f"{task} {beginning}: {100 * known['mean']:.2f} +- {100 * known['spread']:.2f} %", flush=True)
    command = f"python benchmarks/bert_transfer.py --seeds {arguments.seeds}"
    print(f"wrote {write_result('bert-transfer', command, numbers)}")


def measure(task: str, beginning: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one seed to its end and score it."""
    start = arguments.bert if beginning == "pre-trained" else "null"
    folder = Path(arguments.out) / task / f"{beginning.replace(' ', '-')}-{seed}"
    run, outcome = trained(folder, task, [f"start={start}", f"training.seed={seed}"], arguments.data)
    row = {
        "seed": seed,
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "valid": runner.evaluate(run.folder, "valid", data=arguments.data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
    }
    print(f"{task} {beginning}, seed {seed}: {100 * row['test']['accuracy']:.2f} %", flush=True)
    return row


if __name__ == "__main__":
    main()
