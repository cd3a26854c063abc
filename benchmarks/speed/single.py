"""One text at a time, as a program asks that answers a person: Transformer-base, BERT-base and all-MiniLM-L6-v2.

Sentences of Multi30k are translated one after the other (five beams and greedy), sentences of SST-2 and paragraphs of
them become vectors one after the other. Sides and checks are those of `translate` and `encode`. `regard, forgetful`
puts its matrices in order for each paragraph anew (regard.layers.packed); sentences are too short for that.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from minilm_parity import packaged
from regard.data.named import data_folder, named_labelled
from regard.layers import packed
from speed import encode, translate
from speed.apart import Apart
from speed.rounds import ROUNDS, compare

Answer = Callable[..., list[Any]]
PIECES = {1: "sentences", 8: "paragraphs"}  # so many sentences of SST-2 in one
PAIRS = {
    ("regard", "regard, forgetful"): None,
    ("regard", "transformers"): None,
}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks single", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--sentences", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that everything runs")
    arguments = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        translations = translated(folder, arguments)
        models = {"bert-base": encode.random_bert(folder / "base", arguments.quick), "minilm": packaged()}
        vectors = {
            f"{model}, {PIECES[together]}": embedded(weights, folder, together, arguments)
            for model, weights in models.items()
            for together in PIECES
        }
    return {"sentences": arguments.sentences, "cases": {**translations, **vectors}}


def translated(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    rows = translate.sentences(arguments.data, arguments.sentences)
    translate.written(folder, "tiny" if arguments.quick else "base")
    threads = torch.get_num_threads()
    sides = {
        "regard": Apart(one_by_one, translate.ours, folder, False),
        "regard, forgetful": Apart(forgetful, translate.ours, folder, False),
        "regard int8": Apart(one_by_one, translate.ours, folder, True),
        "transformers": Apart(one_by_one, translate.theirs, folder),
        "ctranslate2": Apart(one_by_one, translate.engine, folder, "float32", 1, threads),
        "ctranslate2 int8": Apart(one_by_one, translate.engine, folder, "int8", 1, threads),
        "ctranslate2 int8, one thread": Apart(one_by_one, translate.engine, folder, "int8", 1, 1),
    }
    pairs = {
        **PAIRS,
        ("regard", "ctranslate2"): None,
        ("regard int8", "ctranslate2 int8"): None,
        ("regard int8", "ctranslate2 int8, one thread"): None,  # where threads do not pay
    }
    found = {}
    for beams in (5, 1):
        said = {name: side(rows, beams) for name, side in sides.items()}
        for name, answer in said.items():
            same = sum(one == two for one, two in zip(answer, said["regard"], strict=True))
            if "int8" not in name and same < len(rows) - 1:  # one near tie may fall either way
                raise SystemExit(f"{name} gives the same translation for {same} of {len(rows)}: nothing is measured")
        works = {name: partial(side, rows, beams) for name, side in sides.items()}
        found[f"translate, {beams} beams"] = compare(works, pairs, arguments.rounds)
    end(sides)
    return found


def embedded(weights: Path, folder: Path, together: int, arguments: argparse.Namespace) -> dict[str, Any]:
    known = [each.text for each in islice(named_labelled("sst2", data_folder(arguments.data), "test"), 1000)]
    texts = [" ".join(known[first * together :][:together]) for first in range(arguments.sentences)]
    graph = folder / f"{weights.name}.onnx"
    encode.write_graphs(weights, graph)
    sides = {
        "regard": Apart(one_by_one, encode.ours, weights, False),
        "regard, forgetful": Apart(forgetful, encode.ours, weights, False),
        "regard int8": Apart(one_by_one, encode.ours, weights, True),
        "transformers": Apart(one_by_one, encode.hugging_face, weights),
        "onnxruntime": Apart(one_by_one, encode.session, graph, weights),
        "onnxruntime int8": Apart(one_by_one, encode.session, graph.with_suffix(".int8.onnx"), weights),
    }
    pairs = {**PAIRS, ("regard", "onnxruntime"): None, ("regard int8", "onnxruntime int8"): None}
    said = {name: np.stack(side(texts)) for name, side in sides.items()}
    for name, answer in said.items():
        if "int8" not in name and np.abs(answer - said["regard"]).max() > encode.AGREE:
            raise SystemExit(f"the vectors of {name} are others: nothing is measured")
    found = compare({name: partial(side, texts) for name, side in sides.items()}, pairs, arguments.rounds)
    end(sides)
    return found


def one_by_one(make: Callable[..., Answer], *arguments: Any) -> Answer:
    answer = make(*arguments)
    return lambda texts, *asked: [answer([text], *asked)[0] for text in texts]


def forgetful(make: Callable[..., Answer], *arguments: Any) -> Answer:
    answer = one_by_one(make, *arguments)
    packed._REMEMBERED.clear()
    return answer


def end(sides: dict[str, Apart]) -> None:
    for side in sides.values():
        side.end()
