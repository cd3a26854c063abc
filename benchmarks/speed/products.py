"""What our products are worth: rows of states times a matrix, by torch's own product and as regard does it.

Packed matrices, while a model reads:

Shapes are those of GPT-2 124M (768 x 3072, and 768 x 50257, its output) and of a translator (512 x 2048), for the
numbers of rows that decoding has. Each time is of the products of twelve layers, so that the matrices do not stay in
the caches, and the packed ones pay for being packed. Both must agree within 1e-3.

While a model learns: a linear layer there and back, of the shapes of a translator with 256 numbers a word, of the
numbers of rows that a step of a recurrent network and that a batch has.
"""

import argparse
from typing import Any

import torch
from torch.nn import functional as F

from regard.layers.packed import product
from regard.layers.products import linear
from regard.training.freed_memory import keep_freed_memory
from speed.rounds import ROUNDS, compare

SHAPES = ((768, 3072), (512, 2048), (768, 50257))
ROWS = (1, 5, 8, 40, 250, 2000)
LAYERS, STEPS, AGREE = 12, 24, 1e-3
LARGE = 1 << 24  # numbers in a matrix of which one is enough to leave the caches
LEARNT = ((128, 256, 768), (2000, 256, 768), (2000, 256, 1024), (2000, 1024, 256))  # rows, inputs and outputs


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks products", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    torch.manual_seed(0)
    cases = {**while_reading(arguments.rounds), **while_learning(arguments.rounds)}
    return {"layers": LAYERS, "cases": cases}


@torch.inference_mode()
def while_reading(rounds: int) -> dict[str, Any]:
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
            found[f"{rows} rows, {inputs} x {outputs}"] = compare(sides, {("packed", "torch"): None}, rounds)
    return found


def while_learning(rounds: int) -> dict[str, Any]:
    keep_freed_memory()  # as the training loop does
    found = {}
    for rows, inputs, outputs in LEARNT:
        states = torch.randn(rows, inputs, requires_grad=True)
        weights = [torch.randn(outputs, inputs, requires_grad=True) for _ in range(LAYERS)]
        gradient = torch.randn(rows, outputs)
        steps = max(1, STEPS // (1 + rows // 100))

        def gradients(multiply: Any, given: Any = (states, weights, gradient)) -> list[torch.Tensor]:
            states, weights, gradient = given
            outputs = [multiply(states, weight) for weight in weights]
            return list(torch.autograd.grad(outputs, [states, *weights], [gradient] * len(weights)))

        for ours, torchs in zip(gradients(linear), gradients(F.linear), strict=True):
            if (ours - torchs).abs().max() > AGREE * torchs.abs().max():
                raise SystemExit("the gradients differ: nothing is measured")

        def learning(multiply: Any, gradients: Any = gradients, steps: int = steps) -> Any:
            return lambda: [gradients(multiply) for _ in range(steps)]

        name = f"there and back, {rows} rows, {inputs} x {outputs}"
        print(name, flush=True)
        sides = {"regard": learning(linear), "torch": learning(F.linear)}
        found[name] = compare(sides, {("regard", "torch"): None}, rounds)
    return found
