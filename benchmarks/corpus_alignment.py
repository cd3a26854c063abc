"""Does attention align? Each recurrent attention on the bundled English-Spanish corpus, against its gold links.

    python benchmarks/corpus_alignment.py [--out runs/corpus-alignment] [--only NAME ...] [--table]

The data and the steps are the demo's, the models those of `multi30k_attention.py` at half their size. Runs that are in
--out already are used, and resumed if they are not finished. --table only prints the table of the result file.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from multi30k_attention import RUNS
from regard import families
from regard.recipes import Recipe, load_recipe, runner
from result_files import FOLDER, write_result

NAME = "corpus-alignment"
SMALLER = {"embedding_size": 128, "size": 128, "readout_size": 128, "alignment_size": 128, "dropout": 0.1}


def recipe_of(name: str) -> Recipe:
    """The demo's data and training with the model of a Multi30k run, smaller."""
    recipe, overrides = RUNS[name]
    demo, model = load_recipe("demo-translate"), load_recipe(recipe, overrides).model
    known = asdict(families.resolve(model, vocabulary=1)[1])
    sizes = {key: value for key, value in SMALLER.items() if key in known}
    return replace(demo, about=name, model={**model, **sizes})


def measure(name: str, out: Path) -> dict[str, Any]:
    folder = out / name.replace(" ", "-")
    run, outcome = runner.resume(folder) if folder.exists() else runner.train(recipe_of(name), folder)
    if outcome.reason == "stopped":
        raise SystemExit("stopped; the same command goes on")
    test = runner.evaluate(run.folder, "test").as_dict()
    return {"steps": outcome.progress.step, "train_seconds": round(outcome.progress.seconds, 1), "test": test}


def table(results: dict[str, Any]) -> str:
    lines = ["| model | BLEU | AER | read from |", "|---|---|---|---|"]
    for name, known in results.items():
        chosen = known["test"]["alignment_chosen"]
        error = f"{known['test']['alignment'][chosen]['error_rate']:.3f}" if chosen else "-"
        row = "" if chosen is None else "the row of the word" if "after" not in chosen else "the row after the word"
        lines.append(f"| {name} | {known['test']['bleu']:.1f} | {error} | {row} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=f"runs/{NAME}", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=[])
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    path = FOLDER / f"{NAME}.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}
    for name in [] if arguments.table else arguments.only or [name for name in RUNS if name not in known]:
        known[name] = measure(name, arguments.out)
        ordered = {name: known[name] for name in RUNS if name in known}
        write_result(NAME, "python benchmarks/corpus_alignment.py", {"runs": ordered})
    print(table({name: known[name] for name in RUNS if name in known}))


if __name__ == "__main__":
    main()
