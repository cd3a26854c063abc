"""UD English EWT: a tagger without ELMo, with its first or second layer, and with a mix of all; accuracy on test.

    python benchmarks/ewt_elmo.py [--data DIR] [--elmo runs/wikitext2-elmo] [--out runs/ewt] [--seeds 0] [KEY=VALUE ...]

Trains `ewt-elmo` four times from each seed; everything but what is taken from the language model is the same. The run
--elmo is trained first if it is not there. Runs in --out are used, and resumed if they are not finished. Each run's
best checkpoint is chosen on the validation split; the test split is scored once. Writes the table to results/.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE, ELMO = "ewt-elmo", "wikitext2-elmo"
TAGGERS = {
    "none": ["data.elmo=null"],
    "layer-1": ["model.elmo_layer=1"],
    "layer-2": ["model.elmo_layer=2"],
    "mix": ["model.elmo_layer=null"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--elmo", default=f"runs/{ELMO}")
    parser.add_argument("--out", default="runs/ewt")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    elmo = trained(arguments.elmo, ELMO, [], arguments.data)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TAGGERS}
    for seed in map(int, arguments.seeds.split(",")):
        for name, changes in TAGGERS.items():
            own = [f"data.elmo={arguments.elmo}", *arguments.overrides, f"training.seed={seed}", *changes]
            run, outcome = trained(Path(arguments.out) / f"{name}-{seed}", RECIPE, own, arguments.data)
            rows[name].append(score(run, outcome, seed, arguments.data))
            print(f"{name}, seed {seed}: {100 * rows[name][-1]['test']['accuracy']:.2f} %", flush=True)
    accuracy = {name: mean(row["test"]["accuracy"] for row in known) for name, known in rows.items()}
    command = f"python benchmarks/ewt_elmo.py --seeds {arguments.seeds}"
    language_model = {
        "config": elmo[0].config(),
        "train_seconds": elmo[1].progress.seconds,
        "test": runner.evaluate(elmo[0].folder, "test", data=arguments.data).as_dict(),
    }
    path = write_result(
        RECIPE,
        " ".join([command, *arguments.overrides]),
        {"test_accuracy": accuracy, "language_model": language_model, "runs": rows},
    )
    print(f"{'ELMo':10} {'words':>8} {'known':>8} {'unknown':>8}")
    for name, known in rows.items():
        shares = (
            100 * mean(row["test"][key] for row in known) for key in ("accuracy", "known_accuracy", "unknown_accuracy")
        )
        print(f"{name:10} " + " ".join(f"{share:8.2f}" for share in shares))
    print(f"wrote {path}")


def score(run: Any, outcome: Any, seed: int, data: str | None) -> dict[str, Any]:
    model = regard.load(run.folder).model
    return {
        "seed": seed,
        "config": run.config(),
        "parameters": sum(each.numel() for each in model.parameters()),
        "parameters_learnt": sum(each.numel() for each in model.parameters() if each.requires_grad),
        "mix": None if model.mix is None else [*model.mix.weights.softmax(0).tolist(), model.mix.gamma.item()],
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "valid": runner.evaluate(run.folder, "valid", data=data).as_dict(),
        "test": runner.evaluate(run.folder, "test", data=data).as_dict(),
    }


if __name__ == "__main__":
    main()
