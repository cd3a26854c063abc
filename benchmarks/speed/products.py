"""What packed matrices are worth: rows of states times a matrix, by torch's own product and as regard does it.

Shapes are those of GPT-2 124M (768 x 3072, and 768 x 50257, its output) and of a translator (512 x 2048), for the
numbers of rows that decoding has. Each time is of the products of twelve layers, so that the matrices do not stay in
the caches, and the packed ones pay for being packed. Both must agree within 1e-3.
"""

import argparse
from typing import Any

import torch
from torch.nn import functional as F

from regard.layers.packed import product
from speed.rounds import ROUNDS, compare

SHAPES = ((768, 3072), (512, 2048), (768, 50257))
ROWS = (1, 5, 8, 40, 250, 2000)
LAYERS, STEPS, AGREE = 12, 24, 1e-3
LARGE = 1 << 24  # numbers in a matrix of which one is enough to leave the caches


@torch.inference_mode()
def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks products", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    torch.manual_seed(0)
    found = {}
    for inputs, outputs in SHAPES:
        layers = 1 if inputs * outputs > LARGE else LAYERS
        weights = [torch.randn(outputs, inputs) for _ in range(layers)]
        for rows in ROWS:
            states = torch.randn(rows, inputs)
            if (product(weights[0])(states) - F.linear(states, weights[0])).abs().max() > AGREE:
                raise SystemExit("the products differ: nothing is measured")
            steps = max(1, STEPS // (1 + rows // 100))

            def packed(weights: Any = weights, states: Any = states, steps: int = steps) -> None:
                products = [product(weight) for weight in weights]
                for _ in range(steps):
                    for each in products:
                        each(states)

            def plain(weights: Any = weights, states: Any = states, steps: int = steps) -> None:
                for _ in range(steps):
                    for weight in weights:
                        F.linear(states, weight)

            print(f"{rows} rows, {inputs} x {outputs}", flush=True)
            sides = {"packed": packed, "torch": plain}
            found[f"{rows} rows, {inputs} x {outputs}"] = compare(sides, {("packed", "torch"): None}, arguments.rounds)
    return {"layers": LAYERS, "cases": found}
