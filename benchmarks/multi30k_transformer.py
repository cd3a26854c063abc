"""Multi30k en->de: train `multi30k-transformer`, score test2016, write curve and scores to results/.

    python benchmarks/multi30k_transformer.py [--data DIR] [--out runs/multi30k-transformer] [KEY=VALUE ...]

Uses the run in --out if it is there already (and resumes it if it is not finished). The test split is scored once, at
the end; everything was chosen on the validation split.
"""

import argparse
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import sacrebleu
import torch

import regard
from regard.recipes import load_recipe, runner
from regard.training.run import Run

RECIPE = "multi30k-transformer"
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    if Path(arguments.out).exists():
        run, outcome = runner.resume(arguments.out, arguments.data)
    else:
        run, outcome = runner.train(load_recipe(RECIPE, arguments.overrides), arguments.out, arguments.data)
    curve = run.read_metrics()
    record = {
        "command": "python benchmarks/multi30k_transformer.py " + " ".join(arguments.overrides),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": {
            "regard": regard.__version__,
            "torch": torch.__version__,
            "sacrebleu": sacrebleu.__version__,
            "python": platform.python_version(),
        },
        "config": run.config(),
        "parameters": parameters(run),
        "train_seconds": outcome.progress.seconds,
        "epochs": outcome.progress.epoch,
        "valid": runner.evaluate(run.folder, "valid", data=arguments.data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
        "test_greedy": runner.evaluate(run.folder, "test", data=arguments.data, num_beams=1).as_dict(),
        "curve": [
            {key: row[key] for key in ("step", "loss", "nll", "seconds", "valid_nll") if key in row}
            for row in curve
            if "valid_nll" in row
        ],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{RECIPE}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(
        f"BLEU {record['test']['bleu']:.2f} (greedy {record['test_greedy']['bleu']:.2f}); wrote {path}", file=sys.stderr
    )


def machine() -> str:
    """What the numbers were measured on, without naming the machine."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def parameters(run: Run) -> int:
    model = regard.load(run.folder).model
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    main()
