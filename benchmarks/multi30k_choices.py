"""Multi30k en->de: what each choice of the recipe brings after equally many steps, on the validation split.

    python benchmarks/multi30k_choices.py [--data DIR] [--steps 400] [--out runs/choices]

Each row changes one thing of `multi30k-transformer` and trains a little (constant learning rate after the warm-up).
Likelihoods of different vocabularies are per token and cannot be compared; greedy BLEU can.
"""

import argparse
from pathlib import Path

from regard.recipes import runner
from result_files import write_result
from trainings import trained

CHOICES = {
    "the recipe": [],
    "post-norm": ["model.pre_norm=false"],
    "dropout 0.1": ["model.dropout=0.1"],
    "learning rate 0.001": ["training.learning_rate=0.001"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", default="runs/choices")
    arguments = parser.parse_args()
    short = [
        f"training.steps={arguments.steps}",
        f"training.validate_every={arguments.steps}",
        "training.schedule=constant",
        "training.warmup=200",
        "training.average=0",
    ]
    rows = {}
    for name, overrides in CHOICES.items():
        folder = Path(arguments.out) / name.replace(" ", "-").replace("/", "-")
        run, outcome = trained(folder, "multi30k-transformer", [*short, *overrides], arguments.data)
        scores = runner.evaluate(run.folder, "valid", data=arguments.data, num_beams=1)
        rows[name] = {
            "overrides": overrides,
            "valid_nll_per_token": scores.nll,
            "valid_bleu_greedy": scores.scores.bleu,
            "seconds": outcome.progress.seconds,
        }
        print(name, rows[name], flush=True)
        write_result(
            "multi30k-choices", f"python benchmarks/multi30k_choices.py --steps {arguments.steps}", {"choices": rows}
        )


if __name__ == "__main__":
    main()
