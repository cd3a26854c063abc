"""WikiText-2: an LSTMN and an LSTM of equal width after equally many steps, word perplexity on valid and test.

    python benchmarks/wikitext2_lstmn.py [--data DIR] [--out runs/wikitext2] [KEY=VALUE ...]

Trains `wikitext2-lstmn` twice, with and without the attention to its own past; everything else is the same. A run that
is there already is used, and resumed if it is not finished. Each split is read once, in one pass. Draws what the
words of the lecture's sentence look back at into docs/images/.
"""

import argparse
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE = "wikitext2-lstmn"
MODELS = {"lstmn": [], "lstm": ["model.intra_attention=false"]}
SENTENCE = "The FBI is chasing a criminal on the run ."
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "lstmn-reading.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default="runs/wikitext2")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    command = " ".join(["python benchmarks/wikitext2_lstmn.py", *arguments.overrides])
    rows: dict[str, Any] = {}
    for name, changes in MODELS.items():
        folder = Path(arguments.out) / name
        run, outcome = trained(folder, RECIPE, [*arguments.overrides, *changes], arguments.data)
        model = regard.load(run.folder).model
        rows[name] = {
            "config": run.config(),
            "parameters": sum(each.numel() for each in model.parameters()),
            "parameters_without_embeddings": sum(each.numel() for each in model.stack.parameters()),
            "train_seconds": outcome.progress.seconds,
            "steps": outcome.progress.step,
            "epochs": outcome.progress.epoch,
            "valid": runner.evaluate(run.folder, "valid", data=arguments.data).as_dict(),
            "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
            "curve": [
                {key: row[key] for key in ("step", "nll", "seconds", "valid_nll", "valid_word_perplexity")}
                for row in run.read_metrics()
                if "valid_nll" in row
            ],
        }
        path = write_result(RECIPE, command, {"models": rows})
        told = {split: round(rows[name][split]["word_perplexity"], 2) for split in ("valid", "test")}
        print(f"{name}: word perplexity {told}; wrote {path}", flush=True)
    print(regard.load(Path(arguments.out) / "lstmn").draw(SENTENCE, str(PICTURE)))


if __name__ == "__main__":
    main()
