"""What `training.compile` is worth: the step of `python -m benchmarks train`, with compiled blocks and without.

The losses of both must agree within 1e-4; the time that compiling takes is told beside the ratio.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.models import transformer
from regard.tasks.translate import sequence_loss
from regard.training.compiled import compile_blocks
from speed.peers import read_back
from speed.rounds import ROUNDS, compare
from speed.train import BATCHES, PAD, SMOOTHING, marian, real_batches, step_of


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compile", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    batches = list(islice(real_batches(arguments.data), BATCHES))
    with tempfile.TemporaryDirectory() as folder:
        marian().save_pretrained(folder)
        plain, compiled = (read_back(Path(folder), transformer, "transformer") for _ in range(2))
    compile_blocks(compiled, torch.device("cpu"))
    started = time.perf_counter()
    losses = [sequence_loss(model, batches[0], PAD, SMOOTHING).total.item() for model in (plain, compiled)]
    if abs(losses[0] / losses[1] - 1) > 1e-4:
        raise SystemExit("the losses differ: nothing is measured")
    steps = {"plain": step_of(plain.train()), "compiled": step_of(compiled.train())}
    for batch in batches:
        steps["compiled"](batch)
    seconds = time.perf_counter() - started
    works = {name: (lambda step=step: [step(batch) for batch in batches]) for name, step in steps.items()}
    return {
        "seconds_until_compiled": round(seconds, 1),
        **compare(works, {("compiled", "plain"): None}, arguments.rounds),
    }
