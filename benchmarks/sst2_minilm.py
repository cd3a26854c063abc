"""SST-2: fine-tune the public all-MiniLM-L6-v2, score validation and test, write results/sst2-minilm.json.

    python benchmarks/sst2_minilm.py [--data DIR] [--out runs/sst2-minilm] [KEY=VALUE ...]

`start=FOLDER` takes the checkpoint from a folder instead of the hub. A run that is in --out already is used (and
resumed if it is not finished). The best checkpoint is chosen on the validation split.
"""

import argparse

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE = "sst2-minilm"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    run, outcome = trained(arguments.out, RECIPE, arguments.overrides, arguments.data)
    numbers = {
        "config": {**run.config(), "start": "sentence-transformers/all-MiniLM-L6-v2"},
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "valid": runner.evaluate(run.folder, "valid", data=arguments.data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
        "curve": [
            {key: row[key] for key in ("step", "loss", "seconds", "valid_nll", "valid_accuracy")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }
    path = write_result(RECIPE, "python benchmarks/sst2_minilm.py", numbers)
    print(f"test accuracy {100 * numbers['test']['accuracy']:.2f} %; wrote {path}")


if __name__ == "__main__":
    main()
