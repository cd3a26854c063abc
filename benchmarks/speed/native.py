"""What our own kernels are worth: a step of decoding, piece by piece, beside what torch offers for the same.

Products of a few rows with the matrices of GPT-2 124M (all of them, so that none stays in the caches), products of 8
bits for 1 to 1,250 rows beside FBGEMM, attention of one query, of five beams and of all tokens of a text (of which some
may not be seen, or whose weights are kept as well), LayerNorms of sums, what lies between the products of a GRU, there
and back, and the gradient of a matrix. All must agree before anything is measured; `reading` only adds up the numbers
of the same matrices, which is as fast as memory gives them.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.kernels import ops, reference
from regard.layers.int8 import Int8Linear, TorchMatrix8
from regard.training.freed_memory import keep_freed_memory
from speed.rounds import ROUNDS, Work, compare

LAYERS = 12
SHAPES = [(2304, 768), (768, 768), (3072, 768), (768, 3072)] * LAYERS + [(50257, 768)]
ROWS, ROWS_OF_8_BITS = (1, 2, 5, 8, 32), (1, 8, 32, 128, 1250)
ATTENTION = ((1, 12, 1, 96), (8, 12, 1, 96), (32, 12, 1, 96), (250, 8, 1, 16), (50, 8, 5, 60))
MANY = ((1, 512), (8, 197), (32, 32), (128, 12))  # texts and their tokens, 12 heads
NORM_ROWS, NORM_SIZE = (8, 32, 170, 1024), 512
GRU_ROWS, GRU_SIZE = (16, 128), 256
LEARNT = ((128, 256, 768), (2000, 256, 1024), (2000, 1024, 256), (400, 256, 8000))  # rows, inputs and outputs
AGREE = 1e-3


@torch.inference_mode()
def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks native", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    if not ops.has_int8():
        raise SystemExit("there are no kernels here (no C compiler?): nothing is measured")
    keep_freed_memory()
    torch.manual_seed(0)
    cases = {**products(), **products_of_8_bits(), **attention(), **attention_of_many(), **norms(), **steps_of_a_gru()}
    cases |= gradients_of_matrices()
    found = {}
    for name, sides in cases.items():
        print(name, flush=True)
        theirs = [side for side in sides if side != "regard"]
        found[name] = compare(sides, {("regard", other): None for other in theirs}, arguments.rounds)
    return {"layers": LAYERS, "cases": found}


def agree(name: str, one: Tensor, other: Tensor) -> None:
    if (one - other).abs().max() > AGREE * other.abs().max():
        raise SystemExit(f"{name}: the sides differ: nothing is measured")


def products() -> dict[str, dict[str, Work]]:
    weights = [torch.randn(shape) / 30 for shape in SHAPES]
    in_order = [torch.ops.mkldnn._reorder_linear_weight.default(weight, 32) for weight in weights]
    found = {}
    for rows in ROWS:
        states = {size: torch.randn(rows, size) for size in (768, 3072)}

        def all_of(product: Callable[[Tensor, Tensor], Any], states: Any = states, given: Any = weights) -> Work:
            return lambda: [product(states[shape[1]], each) for shape, each in zip(SHAPES, given, strict=True)]

        ours = all_of(lambda x, weight: ops.linear(x, weight, None))
        theirs = all_of(F.linear)
        agree("products", ours()[-1], theirs()[-1])
        found[f"{rows} rows"] = {
            "regard": ours,
            "torch": theirs,
            "oneDNN": all_of(by_onednn, given=weights if rows == 1 else in_order),
            "reading": all_of(lambda x, weight: weight.sum()),
        }
    return found


def by_onednn(states: Tensor, weight: Tensor) -> Tensor:
    """A single row takes the matrix as it lies, more take it in the order that was made for them."""
    return torch.ops.mkldnn._linear_pointwise(states, weight, None, "none", [], "")


def products_of_8_bits() -> dict[str, dict[str, Work]]:
    layers = [Int8Linear.of(torch.randn(shape) / 30) for shape in SHAPES]
    parts = [(each.weight, each.scale, each.bias, each.columns, each.whole) for each in layers]
    ours = [ops.Int8Matrix.pack(*part) for part in parts]
    theirs = [TorchMatrix8(*part, "none") for part in parts]
    found = {}
    for rows in ROWS_OF_8_BITS:
        # Numbers that 8 bits hold exactly: else the two may round a tie to different sides.
        states = {size: torch.randint(-127, 128, (rows, size)) / 8 for size in (768, 3072)}
        for each in states.values():
            each[:, 0] = 127 / 8
        agree("8 bits", ours[-1](states[768]), theirs[-1](states[768]))

        def all_of(matrices: Any, states: Any = states) -> Work:
            return lambda: [
                matrix(states[weight.shape[1]]) for matrix, (weight, *_) in zip(matrices, parts, strict=True)
            ]

        found[f"8 bits, {rows} rows"] = {"regard": all_of(ours), "FBGEMM": all_of(theirs)}
    return found


def attention() -> dict[str, dict[str, Work]]:
    found = {}
    for batch, heads, queries, count in ATTENTION:
        query = torch.randn(batch, heads, queries, 64)
        rooms = [torch.randn(2, batch, 2 * count, heads, 64).transpose(2, 3) for _ in range(LAYERS)]
        memories = [room[..., :count, :].unbind(0) for room in rooms]
        mask = torch.rand(batch, 1, queries, count) > 0.3 if queries > 1 else None

        def ours(query: Tensor = query, memories: Any = memories, mask: Any = mask) -> list[Tensor]:
            return [ops.attention(query, keys, values, mask, False, 0.125) for keys, values in memories]

        def theirs(query: Tensor = query, memories: Any = memories, mask: Any = mask) -> list[Tensor]:
            return [
                F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=0.125)
                for keys, values in memories
            ]

        agree("attention", ours()[0], theirs()[0])
        found[f"attention, batch {batch}, {heads} heads, {queries} of {count}"] = {"regard": ours, "torch": theirs}
    return found


def attention_of_many() -> dict[str, dict[str, Work]]:
    found = {}
    for batch, tokens in MANY:
        query, keys, values = torch.randn(batch, tokens, 3, 12, 64).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.rand(batch, tokens) > 1 / 3
        mask[:, 0] = True
        places: dict[str, tuple[Any, bool, bool]] = {
            "all": (None, False, False),
            "masked": (mask, False, False),
            "causal": (None, True, False),
            "weights kept": (None, False, True),
        }
        for kind, (allowed, causal, keep) in places.items():

            def ours(given: Any = (query, keys, values, allowed, causal, 0.125, keep)) -> Tensor:
                *tensors, allowed, causal, scale, keep = given
                attend = ops.attention_with_weights if keep else ops.attention
                found = attend(*tensors, over_queries(allowed), causal, scale)
                return found[0] if keep else found

            def theirs(given: Any = (query, keys, values), allowed: Any = allowed, causal: bool = causal) -> Tensor:
                mask = over_queries(allowed)
                return F.scaled_dot_product_attention(*given, attn_mask=mask, is_causal=causal, scale=0.125)

            agree("attention of many", ours(), theirs())
            sides = {"regard": repeated(ours), "torch, no weights" if keep else "torch": repeated(theirs)}
            found[f"{batch} texts of {tokens} tokens, {kind}"] = sides
    return found


def over_queries(allowed: Tensor | None) -> Tensor | None:
    return None if allowed is None else allowed[:, None, None]


def repeated(work: Work) -> Work:
    return lambda: [work() for _ in range(LAYERS)]


def norms() -> dict[str, dict[str, Work]]:
    norm = torch.nn.LayerNorm(NORM_SIZE)
    found = {}
    for rows in NORM_ROWS:
        pairs = [torch.randn(2, rows, NORM_SIZE).unbind(0) for _ in range(LAYERS)]

        def ours(pairs: Any = pairs) -> list[Tensor]:
            return [ops.add_norm(one, other, norm.weight, norm.bias, norm.eps) for one, other in pairs]

        def theirs(pairs: Any = pairs) -> list[Tensor]:
            return [norm(one + other) for one, other in pairs]

        agree("norms", ours()[0], theirs()[0])
        found[f"LayerNorm(x + z), {rows} rows"] = {"regard": ours, "torch": theirs}
    return found


def steps_of_a_gru() -> dict[str, dict[str, Work]]:
    found = {}
    for rows in GRU_ROWS:
        gates, product = torch.randn(2, 1, rows, 3 * GRU_SIZE)
        state, gradient = torch.randn(2, 1, rows, GRU_SIZE)
        given = (gates, product, state, gradient)
        ours = partial(there_and_back, ops.gru_step, ops.gru_step_backward, *given)
        theirs = partial(there_and_back, reference.gru_step, reference.gru_step_backward, *given)
        agree("steps of a GRU", ours(), theirs())
        found[f"a GRU's step, {rows} rows"] = {"regard": repeated(ours), "torch": repeated(theirs)}
    return found


def there_and_back(ahead: Callable[..., Any], back: Callable[..., Any], *given: Tensor) -> Tensor:
    gates, product, state, gradient = given
    following, carried = torch.empty_like(state), torch.zeros_like(state)
    kept, to_gates, to_product = (torch.empty_like(gates) for _ in range(3))
    ahead(following, kept, gates, product, state)
    back(to_gates, to_product, carried, gradient, kept, product, state)
    return to_gates


def gradients_of_matrices() -> dict[str, dict[str, Work]]:
    found = {}
    for rows, inputs, outputs in LEARNT:
        to_outputs, states = torch.randn(rows, outputs), torch.randn(rows, inputs)

        def ours(given: Any = (to_outputs, states), shape: Any = (outputs, inputs)) -> Tensor:
            total = torch.zeros(shape)
            ops.accumulate_weight_grad(total, *given)
            return total

        def theirs(to_outputs: Tensor = to_outputs, states: Tensor = states) -> Tensor:
            return to_outputs.T @ states

        agree("gradients of matrices", ours(), theirs())
        found[f"gradient of {outputs} x {inputs}, {rows} rows"] = {"regard": repeated(ours), "torch": repeated(theirs)}
    return found
