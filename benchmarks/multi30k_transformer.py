"""Multi30k en->de: train `multi30k-transformer`, score test2016, write curve and scores to results/.

    python benchmarks/multi30k_transformer.py [--data DIR] [--out runs/multi30k-transformer] [KEY=VALUE ...]

Uses the run in --out if it is there already (and resumes it if it is not finished). The test split is scored once, at
the end; everything was chosen on the validation split.
"""

import argparse
from dataclasses import asdict
from typing import Any

import regard
from regard.recipes import load_recipe, runner
from result_files import write_result
from trainings import trained

RECIPE = "multi30k-transformer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    run, outcome = trained(arguments.out, RECIPE, arguments.overrides, arguments.data)
    decoding = load_recipe(RECIPE, arguments.overrides).decoding_settings()

    def score(split: str, num_beams: int) -> dict[str, Any]:
        penalty = decoding.length_penalty
        return runner.evaluate(
            run.folder, split, data=arguments.data, num_beams=num_beams, length_penalty=penalty
        ).as_dict()

    record = {
        "config": run.config(),
        "decoding": asdict(decoding),
        "parameters": sum(each.numel() for each in regard.load(run.folder).model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "epochs": outcome.progress.epoch,
        "valid": score("valid", decoding.num_beams),
        "test": score("test", decoding.num_beams),
        "test_greedy": score("test", 1),
        "curve": [
            {key: row[key] for key in ("step", "loss", "nll", "seconds", "valid_nll")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }
    path = write_result(RECIPE, " ".join(["python benchmarks/multi30k_transformer.py", *arguments.overrides]), record)
    print(f"test BLEU {record['test']['bleu']:.2f}, greedy {record['test_greedy']['bleu']:.2f}; wrote {path}")


if __name__ == "__main__":
    main()
