"""Tiny Shakespeare: a small GPT-2 by characters, its validation loss in nats per character, and a sample.

    python benchmarks/shakespeare_gpt2.py [--data DIR] [--out runs/shakespeare-gpt2] [KEY=VALUE ...]

Trains `shakespeare-gpt2`; a run that is there already is used, and resumed if it is not finished. The validation text
(the last tenth; there is no test text, and the best checkpoint was chosen by it) is read in windows that do not
overlap, as nanoGPT estimates its losses, and in windows that overlap, which know more before each character.
"""

import argparse
from typing import Any

import regard
from regard.recipes import runner
from result_files import write_result
from trainings import trained

RECIPE = "shakespeare-gpt2"
PROMPT = "ROMEO:"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default=f"runs/{RECIPE}")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    command = " ".join(["python benchmarks/shakespeare_gpt2.py", *arguments.overrides])
    run, outcome = trained(arguments.out, RECIPE, arguments.overrides, arguments.data)
    speaker = regard.load(run.folder)
    context = speaker.model.context
    losses: dict[str, Any] = {}
    for stride in (context, context // 2, context // 8):
        known = runner.evaluate(run.folder, "valid", data=arguments.data, stride=stride).as_dict()
        losses[f"stride {stride}"] = known
        print(f"windows of {context}, stride {stride}: {known['nll_per_token']:.4f} nats per character", flush=True)
    numbers = {
        "config": run.config(),
        "parameters": sum(each.numel() for each in speaker.model.parameters()),
        "train_seconds": outcome.progress.seconds,
        "steps": outcome.progress.step,
        "epochs": outcome.progress.epoch,
        "valid": losses,
        "sample": speaker.generate(PROMPT, do_sample=True, temperature=0.8, seed=0, max_new_tokens=400)[0].text,
        "curve": [
            {key: row[key] for key in ("step", "nll", "seconds", "valid_nll")}
            for row in run.read_metrics()
            if "valid_nll" in row
        ],
    }
    print(f"{numbers['sample']}\nwrote {write_result(RECIPE, command, numbers)}")


if __name__ == "__main__":
    main()
