"""What it is worth to keep freed memory: `embed` over real sentences, with the advice of `regard.load` and without.

Both sides give the same vectors, bit by bit, each in a process of its own.
"""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import regard
from minilm_parity import packaged
from regard import loading
from regard.data.named import data_folder, named_labelled
from speed.apart import Apart
from speed.encode import Encode
from speed.rounds import ROUNDS, compare


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    known = named_labelled("sst2", data_folder(arguments.data), "test")
    texts = [each.text for each in islice(known, arguments.sentences)]
    found = {}
    for name, int8 in (("whole", False), ("8 bits", True)):
        sides = {side: Apart(embedder, packaged(), int8, side == "kept") for side in ("kept", "given back")}
        first, second = (encode(texts) for encode in sides.values())
        if not np.array_equal(first, second):
            raise SystemExit("the vectors differ: nothing is measured")
        works = {side: (lambda encode=encode: encode(texts)) for side, encode in sides.items()}
        found[name] = compare(works, {("kept", "given back"): None}, arguments.rounds)
        for side in sides.values():
            side.end()
    return {"sentences": len(texts), "cases": found}


def embedder(weights: Path, int8: bool, keeps: bool) -> Encode:
    if not keeps:
        loading.keep_freed_memory = lambda: False
    loaded = regard.load(weights, device="cpu", int8=int8)
    return lambda texts: loaded.embed(texts, pooling="mean", normalize=True)
