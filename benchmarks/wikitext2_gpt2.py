"""WikiText-2: a small GPT-2 over 8,000 BPE pieces, word perplexity on valid and test by how much its windows overlap.

    python benchmarks/wikitext2_gpt2.py [--data DIR] [--out runs/wikitext2/gpt2] [KEY=VALUE ...]

Trains `wikitext2-gpt2`; a run that is there already is used, and resumed if it is not finished. The same tokens and
words as `wikitext2_lstmn.py`, so the numbers of both can stand side by side. Draws what the words of the lecture's
sentence look back at into docs/images/.
"""

import argparse
from pathlib import Path
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE = "wikitext2-gpt2"
SENTENCE = "The FBI is chasing a criminal on the run ."
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gpt2-reading.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default="runs/wikitext2/gpt2")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    command = " ".join(["python benchmarks/wikitext2_gpt2.py", *arguments.overrides])
    run, outcome = trained(arguments.out, RECIPE, arguments.overrides, arguments.data)
    speaker = regard.load(run.folder)
    context = speaker.model.context
    splits: dict[str, Any] = {}
    for split in ("valid", "test"):
        splits[split] = {}
        for stride in (context, context // 2, context // 4):
            known = runner.evaluate(run.folder, split, data=arguments.data, stride=stride).as_dict()
            splits[split][f"stride {stride}"] = known
            print(f"{split}, stride {stride}: word perplexity {known['word_perplexity']:.2f}", flush=True)
    numbers = {
        "config": run.config(),
        "parameters": sum(each.numel() for each in speaker.model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "epochs": outcome.progress.epoch,
        **splits,
        "curve": [
            {key: row[key] for key in ("step", "nll", "seconds", "valid_nll", "valid_word_perplexity")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }
    print(f"wrote {write_result(RECIPE, command, numbers)}")
    print(speaker.draw(SENTENCE, str(PICTURE)))


if __name__ == "__main__":
    main()
