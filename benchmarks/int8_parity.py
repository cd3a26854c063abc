"""What 8 bits change: BLEU on Multi30k, word perplexity on WikiText-2, vectors of all-MiniLM-L6-v2 on SST-2.

    python benchmarks/int8_parity.py [--data DIR] [--runs runs/int8]

Trains two recipes for a part of their steps, some minutes each on two cores (runs that are there already are
used, and gone on with if they are not finished), then scores both on their test split as `regard evaluate RUN --int8`
does. Writes results/int8-parity.json; ends with an error if anything changed by more than is promised.
"""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import regard
from minilm_parity import packaged
from regard.data.named import data_folder, named_labelled
from regard.recipes import runner
from regard.tasks.embedding_scores import turned_vectors
from result_files import write_result
from trainings import trained

SENTENCES = 2000
TRANSLATOR = ("multi30k-transformer", "training.steps=600")
LANGUAGE_MODEL = ("wikitext2-gpt2", "training.steps=150")
PROMISED = {"bleu": 0.3, "word_perplexity": 0.01, "cosine": 0.99}  # points; a part of it; the least of all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--runs", type=Path, default=Path("runs/int8"))
    arguments = parser.parse_args()
    bleu = both(arguments.runs, *TRANSLATOR, "bleu", arguments.data)
    perplexity = both(arguments.runs, *LANGUAGE_MODEL, "word_perplexity", arguments.data)
    cosines = embedded(arguments.data)
    held = (
        abs(bleu["int8"] - bleu["whole"]) <= PROMISED["bleu"],
        abs(perplexity["int8"] / perplexity["whole"] - 1) <= PROMISED["word_perplexity"],
        cosines["smallest_cosine"] >= PROMISED["cosine"],
    )
    found = {"promised": PROMISED, "bleu": bleu, "word_perplexity": perplexity, "embedding": cosines}
    path = write_result("int8-parity", "python benchmarks/int8_parity.py", found)
    print(f"{bleu}\n{perplexity}\n{cosines}\nwrote {path}")
    if not all(held):
        raise SystemExit("8 bits changed more than is promised")


def both(runs: Path, recipe: str, steps: str, score: str, data: str | None) -> dict[str, Any]:
    """A score of a trained run, whole and in 8 bits."""
    run, outcome = trained(runs / recipe, recipe, [steps], data)
    whole, int8 = (runner.evaluate(run.folder, "test", data=data, int8=bits).as_dict()[score] for bits in (False, True))
    minutes = outcome.progress.seconds / 60
    return {"recipe": recipe, "override": steps, "minutes": minutes, "whole": whole, "int8": int8}


def embedded(data: str | None) -> dict[str, Any]:
    """How far vectors turn."""
    known = islice(named_labelled("sst2", data_folder(data), "train"), SENTENCES)
    texts = [each.text for each in known]
    whole, int8 = (regard.load(packaged(), int8=bits).embed(texts) for bits in (False, True))
    found = turned_vectors(texts, whole, int8)
    return {
        "sentences": found.texts,
        "smallest_cosine": found.smallest_cosine,
        "mean_cosine": found.mean_cosine,
    }


if __name__ == "__main__":
    main()
