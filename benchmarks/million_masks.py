"""A million random masks: no output, loss or gradient is ever anything but a finite number.

    python benchmarks/million_masks.py [--cases 1000000] [--seed 0] [--only KIND ...]

What is counted: one case is one element of a batch (one memory with its queries, one sentence, one picture's caption)
under a mask of its own, drawn for it alone, in one number format, run forward and backward once. Masks are padding on
either side, holes anywhere, a single key, everything, or nothing at all. Widths, the number of queries and the size of
the numbers change from call to call; a call is a batch of fifty cases or fewer. Checked in every call: outputs, losses
and all gradients are finite, and a query that may attend to nothing reads exactly zeros and passes none on.

Kinds: every score with every alignment, `dot_product.attend` on each of its paths with the exact weights, multi-head
attention with windows, caches and memories, the masked softmax, the poolings, the fused cross entropy over the places
that are not ignored, and every tiny model of the contract suite. Formats: float32, float64, bfloat16 and float16; where
torch has no kernel for one of them on this processor that call is counted as left out, not as a case.
"""

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import families
from regard.attention import MultiHeadAttention, dot_product
from regard.attention.alignments import ALIGNMENTS, masked_softmax
from regard.attention.attention import named_attention
from regard.attention.scores import SCORES
from regard.layers.cross_entropy import linear_cross_entropy
from regard.layers.pooling import first_state, mean_state
from result_files import write_result

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
BATCH, MODEL_ROWS, WIDTH = 50, 50, 5
LARGEST = {torch.float16: 6.0}  # of inputs that two-byte numbers can still multiply
SHARES = {"scores": 30, "attend": 20, "multi-head": 15, "softmax": 10, "pooling": 5, "cross-entropy": 10, "models": 10}
MISSING = ("not implemented for", "expected scalar type", "not supported", "must have the same dtype")
SUBJECTS = Path(__file__).parent.parent / "tests"  # where the contract suite keeps its tiny models


class NotFinite(Exception):
    """Names the tensor that has a number which is none."""


@dataclass
class Drawn:
    """One call: its own random generator, its number format, and how many cases it is to have."""

    generator: torch.Generator
    dtype: torch.dtype
    rows: int = BATCH

    def number(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def numbers(self, *shape: int) -> Tensor:
        """Of different sizes, some of them zero, and all of a row zero now and then, as padding is."""
        scale = min([0.01, 1.0, 6.0, 300.0][self.number(0, 3)], LARGEST.get(self.dtype, 1e9))
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        rows = torch.rand(*shape[:-1], 1, generator=self.generator) < 0.1
        return values.masked_fill(rows, 0.0).to(self.dtype).requires_grad_()

    def mask(self, rows: int, width: int) -> Tensor:
        """[rows, width], each row of a kind of its own."""
        places = torch.arange(width)
        kind = torch.randint(0, 6, (rows, 1), generator=self.generator)
        length = torch.randint(0, width + 1, (rows, 1), generator=self.generator)
        share = torch.rand(rows, 1, generator=self.generator)
        holes = torch.rand(rows, width, generator=self.generator) < share
        kinds = [
            places < length,
            places >= width - length,
            holes,
            places == length % width,
            torch.ones(rows, width, dtype=torch.bool),
            torch.zeros(rows, width, dtype=torch.bool),
        ]
        table = torch.stack([known.expand(rows, width) for known in kinds])
        return table.gather(0, kind[None].expand(1, rows, width))[0]

    def chance(self) -> bool:
        return self.number(0, 1) == 1


def finite(**named: Tensor | None) -> None:
    for name, tensor in named.items():
        if tensor is not None and not torch.isfinite(tensor).all():
            raise NotFinite(f"{name} has {int((~torch.isfinite(tensor)).sum())} numbers that are none")


def zeros_at(rows: Tensor, **named: Tensor | None) -> None:
    """Nothing is read, and no gradient passed, where nothing may be attended to."""
    for name, tensor in named.items():
        if tensor is not None and tensor.detach()[rows].count_nonzero():
            raise NotFinite(f"{name} is not zero where nothing may be attended to")


def backward(draw: Drawn, *outputs: Tensor, modules: tuple[nn.Module, ...] = (), **inputs: Tensor) -> None:
    """From some different weight of every number; every gradient must be finite."""
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        weights = torch.rand(output.shape, generator=draw.generator, dtype=torch.float64) - 0.5
        total = total + (output.double() * weights).sum()
    total.backward()
    finite(loss=total.detach(), **{f"the gradient of {name}": known.grad for name, known in inputs.items()})
    for module in modules:
        finite(**{f"the gradient of {name}": known.grad for name, known in module.named_parameters()})


# One function for each kind: a call, and how many cases it was.


def scores(draw: Drawn, score: str, align: str) -> int:
    keys, queries, size = draw.number(1, 9), draw.number(1, 3), draw.number(1, 8)
    torch.manual_seed(draw.number(0, 10**6))
    attention = named_attention(score, align, size, size, reach=draw.number(1, 4), max_keys=9).to(draw.dtype)
    attention.train(draw.chance())
    rows = draw.rows
    query, states, mask = draw.numbers(rows, queries, size), draw.numbers(rows, keys, size), draw.mask(rows, keys)
    attended = attention(query, attention.remember(states, mask))
    finite(context=attended.context, weights=attended.weights, log_probability=attended.log_probability)
    chances = () if attended.log_probability is None else (attended.log_probability,)
    backward(draw, attended.context, *chances, modules=(attention,), query=query, states=states)
    empty = ~mask.any(-1)
    zeros_at(empty, context=attended.context, weights=attended.weights, **{"the gradient of the query": query.grad})
    return rows


def attend(draw: Drawn, path: str) -> int:
    heads, keys, size = draw.number(1, 3), draw.number(1, 9), draw.number(1, 8)
    queries = keys if draw.chance() else draw.number(1, keys)
    rows = draw.rows // 2
    query, key, value = (draw.numbers(rows, heads, length, size) for length in (queries, keys, keys))
    mask = None
    if "keys" in path:
        mask = draw.mask(rows, keys)[:, None, None]
    elif "pairs" in path:
        mask = draw.mask(rows * queries, keys).unflatten(0, (rows, 1, queries))
    window = draw.number(0, 4) if "window" in path else None
    causal = "causal" in path
    attended = dot_product.attend(query, key, value, mask=mask, causal=causal, window=window)
    finite(context=attended.context, weights=attended.weights)
    backward(draw, attended.context, query=query, keys=key, values=value)
    places = torch.arange(keys - queries, keys)
    seen = dot_product.in_sight(places, torch.arange(keys), causal, window)
    empty = ~(seen if mask is None else seen & mask).any(-1).expand(rows, heads, queries)
    zeros_at(empty, context=attended.context, weights=attended.weights, **{"the gradient of the query": query.grad})
    return 0 if mask is None else rows  # paths without a mask run along, and are no cases


def multi_head(draw: Drawn, path: str) -> int:
    heads, length = draw.number(1, 3), draw.number(1, 7)
    size = heads * draw.number(1, 4)
    rows = draw.rows // 2
    torch.manual_seed(draw.number(0, 10**6))
    layer = MultiHeadAttention(size, heads, window=draw.number(0, 3) if path == "window" else None).to(draw.dtype)
    states, mask = draw.numbers(rows, length, size), draw.mask(rows, length)
    more: dict[str, Tensor] = {}
    if path == "memory":
        more = {"memory": draw.numbers(rows, draw.number(1, 6), size)}
        known = layer.remember(more["memory"], draw.mask(rows, more["memory"].shape[1]))
        said = layer(states, known).context
    elif path == "cache":
        more = {"next": draw.numbers(rows, draw.number(1, 3), size)}
        first = layer(states, mask=mask, causal=True)
        own = draw.mask(rows, more["next"].shape[1])
        said = torch.cat([first.context, layer(more["next"], mask=own, causal=True, past=first.memory).context], 1)
    elif path == "narrow":
        pairs = draw.mask(rows * length, length).unflatten(0, (rows, length))
        said = layer(states, mask=pairs, causal=draw.chance()).context
    else:
        said = layer(states, mask=mask, causal=path == "causal" or draw.chance()).context
    finite(context=said)
    backward(draw, said, modules=(layer,), states=states, **more)
    return rows


def softmax(draw: Drawn) -> int:
    keys = draw.number(1, 12)
    largest = torch.finfo(draw.dtype).max / 4
    values = draw.numbers(draw.rows, 2, keys).detach()
    extreme = torch.rand(values.shape, generator=draw.generator)
    values = values.masked_fill(extreme < 0.05, largest).masked_fill(extreme > 0.95, -largest).requires_grad_()
    allowed = draw.mask(draw.rows, keys)[:, None]
    weights = masked_softmax(values, allowed)
    finite(weights=weights)
    backward(draw, weights, scores=values)
    empty = ~allowed.any(-1)[:, 0]
    zeros_at(empty, weights=weights, gradient=values.grad)
    if ((weights.sum(-1)[~empty].float() - 1).abs() > 0.05).any():
        raise NotFinite("weights that do not sum to one")
    return draw.rows


def pooling(draw: Drawn, kind: str) -> int:
    length, size = draw.number(1, 9), draw.number(1, 8)
    states, mask = draw.numbers(draw.rows, length, size), draw.mask(draw.rows, length)
    pooled = {"mean": mean_state, "first": first_state}[kind](states, mask)
    finite(pooled=pooled)
    backward(draw, pooled, states=states)
    if kind == "mean":
        zeros_at(~mask.any(-1), pooled=pooled, **{"the gradient of the states": states.grad})
    return draw.rows


def cross_entropy(draw: Drawn) -> int:
    """Sentences of which some places, or all, are padding and count for nothing."""
    rows, length, size, words = draw.number(1, draw.rows), draw.number(1, 9), draw.number(1, 8), draw.number(1, 30)
    real = draw.mask(rows, length)
    states, weight = draw.numbers(rows, length, size), draw.numbers(words, size)
    targets = torch.randint(0, words, (rows, length), generator=draw.generator)
    loss, nll = linear_cross_entropy(states[real], weight, targets[real], smoothing=[0.0, 0.1][draw.number(0, 1)])
    finite(loss=loss, nll=nll)
    backward(draw, loss, states=states, weight=weight)
    zeros_at(~real, **{"the gradient of ignored states": states.grad})
    return rows


def model(draw: Drawn, subject: Any) -> int:
    """A tiny model of the contract suite; numbers that its subject draws as inputs have its format."""
    mask = draw.mask(min(draw.rows, MODEL_ROWS), WIDTH)
    torch.manual_seed(draw.number(0, 10**6))
    built = families.build_model(subject.family, subject.config).to(draw.dtype).train(draw.chance())
    with default_dtype(draw.dtype):
        outputs = subject.under(built, mask)
    finite(outputs=outputs)
    backward(draw, outputs, modules=(built,))
    return len(mask)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def subjects() -> dict[str, Any]:
    if str(SUBJECTS) not in sys.path:
        sys.path.insert(0, str(SUBJECTS))
    files = sorted((SUBJECTS / "contract").glob("*_subjects.py"))
    found = [known for path in files for known in importlib.import_module(f"contract.{path.stem}").SUBJECTS]
    return {known.name: known for known in found if known.under}


Call = Callable[[Drawn], int]


def calls(kind: str) -> dict[str, Call]:
    """Every call of a kind by its name; they take turns."""
    if kind == "scores":
        pairs = [(score, align) for score in SCORES if score != "concat" for align in ALIGNMENTS]
        return {f"{score} {align}": lambda draw, a=score, b=align: scores(draw, a, b) for score, align in pairs}
    if kind == "attend":
        masks, ways = ("", "keys", "pairs"), ("", "causal", "window", "causal window")
        paths = [f"{mask} {way}".strip() or "plain" for mask in masks for way in ways]
        return {path: lambda draw, path=path: attend(draw, path) for path in paths}
    if kind == "multi-head":
        paths = ["self", "causal", "window", "memory", "cache", "narrow"]
        return {path: lambda draw, path=path: multi_head(draw, path) for path in paths}
    if kind == "pooling":
        return {path: lambda draw, path=path: pooling(draw, path) for path in ("mean", "first")}
    if kind == "models":
        return {name: lambda draw, known=known: model(draw, known) for name, known in subjects().items()}
    return {kind: {"softmax": softmax, "cross-entropy": cross_entropy}[kind]}


@dataclass
class Tally:
    """Cases by kind and by format, what failed, and what this processor has no kernel for."""

    cases: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def run(kind: str, cases: int, seed: int, tally: Tally, rows: int = BATCH) -> None:
    """Calls of one kind, in turn and in every format, until there were so many cases."""
    known = calls(kind)
    turns = [(name, dtype) for name in known for dtype in DTYPES]
    number = done = 0
    while done < cases:
        name, dtype = turns[number % len(turns)]
        told = f"{kind}: {name}, {str(dtype).removeprefix('torch.')}"
        try:
            count = known[name](Drawn(torch.Generator().manual_seed(seed * 10**9 + number), dtype, rows))
            done += count
            tally.cases[kind] += count
            tally.formats[str(dtype).removeprefix("torch.")] += count
        except NotFinite as error:
            done += rows  # go on: one fault must not hide another
            tally.failures.append(f"{told}, call {number}: {error}")
        except (RuntimeError, NotImplementedError) as error:
            if not any(sign in str(error) for sign in MISSING):
                raise
            tally.left_out[f"{told}: {str(error).splitlines()[0][:80]}"] += 1
            if sum(tally.left_out.values()) > 50 * len(turns):
                raise
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(SHARES), metavar="KIND", help=", ".join(SHARES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = {kind: share for kind, share in SHARES.items() if arguments.only is None or kind in arguments.only}
    tally, started = Tally(), time.perf_counter()
    for kind, share in chosen.items():
        begun = time.perf_counter()
        run(kind, -(-arguments.cases * share // sum(chosen.values())), arguments.seed, tally)
        print(f"{kind}: {tally.cases[kind]:,} cases in {time.perf_counter() - begun:.0f} s", flush=True)
    for failure in tally.failures:
        print(f"  {failure}")
    total = sum(tally.cases.values())
    print(f"{total:,} cases, {len(tally.failures)} failed calls, {sum(tally.left_out.values())} calls left out")
    if arguments.only is None:
        numbers = {
            "cases": total,
            "failures": tally.failures,
            "kinds": dict(tally.cases),
            "formats": dict(tally.formats),
            "left_out": dict(tally.left_out),
            "seconds": round(time.perf_counter() - started, 1),
        }
        command = f"python benchmarks/million_masks.py --cases {arguments.cases} --seed {arguments.seed}"
        print(f"wrote {write_result('million-masks', command, numbers)}")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
