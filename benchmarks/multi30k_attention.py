"""Multi30k en->de: no attention, Bahdanau's, and Luong's scores and alignments, all for the same steps.

    python benchmarks/multi30k_attention.py [--data DIR] [--out runs/multi30k-attention] [--only NAME ...] [--table]

One run after the other, each in its own folder under --out; a run that is there is used, or resumed if it is not
finished. Each test split is scored once. The alignment error is measured on hand-aligned sentences of another text
(`word_alignments/deen.*` in the data folder, German-English Europarl), because Multi30k has no gold links. --table only
prints the table of the result file.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import regard
from regard.data.links import read_links
from regard.data.named import data_folder
from regard.data.parallel import read_lines
from regard.recipes import runner
from regard.tasks.alignment import alignment_scores
from regard.tasks.replay import cross_attentions
from result_files import FOLDER, write_result
from trainings import trained

NAME = "multi30k-attention"
LONGEST = 60  # words of a hand-aligned sentence; longer ones are left out of the alignment error

RUNS: dict[str, tuple[str, list[str]]] = {
    "no attention": ("multi30k-rnn", []),
    "Bahdanau": ("multi30k-bahdanau", []),
    "Luong general": ("multi30k-luong", []),
    "Luong dot": ("multi30k-luong", ["model.score=dot"]),
    "Luong additive": ("multi30k-luong", ["model.score=additive"]),
    "Luong location": ("multi30k-luong", ["model.score=location"]),
    "Luong local-m": ("multi30k-luong", ["model.align=local_m"]),
    "Luong local-p": ("multi30k-luong", ["model.align=local_p"]),
    "Luong hard": ("multi30k-luong", ["model.align=hard", "model.expected=0.5", "model.reward_weight=0.02"]),
}


def alignment_error(translator: Any, data: str | None) -> dict[str, float] | None:
    """AER on the hand-aligned pairs, source English and target German; None where there is no attention or no data."""
    folder = data_folder(data) / "word_alignments"
    if not folder.exists() or not cross_attentions(translator.model):
        return None
    german, english = ([line or "" for line in read_lines(folder / f"deen.{side}")] for side in ("de", "en"))
    gold = read_links(folder / "deen.gold", one_based=True)
    turned = [type(links)(_turn(links.sure), _turn(links.possible)) for links in gold]
    kept = [
        (source.lower(), target.lower(), links)
        for source, target, links in zip(english, german, turned, strict=True)
        if max(len(source.split()), len(target.split())) <= LONGEST
    ]
    found = translator.align([source for source, _, _ in kept], [target for _, target, _ in kept])
    scores = alignment_scores(found, [links for _, _, links in kept])
    return {"error_rate": scores.error_rate, "precision": scores.precision, "recall": scores.recall, "pairs": len(kept)}


def _turn(links: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    return frozenset((english, german) for german, english in links)


def measure(name: str, out: Path, data: str | None) -> dict[str, Any]:
    recipe, overrides = RUNS[name]
    folder = out / name.replace(" ", "-")
    run, outcome = trained(folder, recipe, overrides, data)
    translator = regard.load(run.folder)
    test = runner.evaluate(run.folder, "test", data=data).as_dict()
    rows = run.read_metrics()
    speeds = sorted(row["tokens_per_second"] for row in rows)
    return {
        "recipe": recipe,
        "overrides": overrides,
        "parameters": sum(each.numel() for each in translator.model.parameters()),
        "steps": outcome.progress.step,
        "train_seconds": round(outcome.progress.seconds, 1),
        "tokens_per_second": speeds[len(speeds) // 2],
        "valid_nll": outcome.progress.best_loss,
        "test": test,
        "alignment": alignment_error(translator, data),
        "config": run.config(),
    }


def table(results: dict[str, Any]) -> str:
    lines = [
        "| model | BLEU | 95 % interval | AER | target tokens/s | minutes |",
        "|---|---|---|---|---|---|",
    ]
    for name, known in results.items():
        low, high = known["test"]["bleu_interval"]
        error = f"{known['alignment']['error_rate']:.2f}" if known["alignment"] else "-"
        lines.append(
            f"| {name} | {known['test']['bleu']:.1f} | {low:.1f} to {high:.1f} | {error} "
            f"| {known['tokens_per_second']:,} | {known['train_seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{NAME}", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=[])
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    path = FOLDER / f"{NAME}.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}
    for name in [] if arguments.table else arguments.only or [name for name in RUNS if name not in known]:
        known[name] = measure(name, arguments.out, arguments.data)
        ordered = {name: known[name] for name in RUNS if name in known}
        write_result(NAME, "python benchmarks/multi30k_attention.py", {"runs": ordered})
    print(table({name: known[name] for name in RUNS if name in known}))


if __name__ == "__main__":
    main()
