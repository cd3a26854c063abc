"""What looking costs: BERT-base with random weights over texts of 512 tokens, one by one, all attention weights kept.

The peer is Hugging Face transformers with `eager` attention and `output_attentions=True`, the only way to its weights.
Ours are those our kernel read with, or, where there is none, recomputed exactly behind torch's; they must agree within
1e-5. One head of one layer, which is recomputed, is compared with no looking at all: its ratio is what is left of the
speed. Each side has a process of its own; ours reads the texts of a round inside one `packed` block, as the verbs of a
loaded model do, and looking through the matrices for changes is part of its time.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import record
from regard.layers.packed import packed
from regard.models import bert
from speed.apart import Apart
from speed.peers import read_back
from speed.rounds import ROUNDS, compare

LENGTH, TEXTS, AGREE = 512, 4, 1e-5
PROMISED = {("regard, all", "transformers, all"): 1.5, ("regard, one head", "regard, none"): 0.95}
ONE_HEAD = dict(layers=[1], heads=[0])
Maps = list[np.ndarray[Any, Any]]


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks capture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3 * ROUNDS)  # five per cent are easily lost in noise
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, arguments.quick)
        ours, theirs = Apart(our_side, folder), Apart(their_side, folder)
        for found, wanted in zip(ours("first"), theirs("first"), strict=True):
            if np.abs(found - wanted).max() > AGREE:
                raise SystemExit("the weights differ by more than 1e-5: nothing is measured")
        sides = {
            "regard, all": lambda: ours("all"),
            "transformers, all": lambda: theirs("all"),
            "regard, one head": lambda: ours("one head"),
            "regard, none": lambda: ours("none"),
        }
        found = compare(sides, PROMISED, arguments.rounds)
        ours.end()
        theirs.end()
    return {"tokens": LENGTH, "texts": TEXTS, **found}


def written(folder: Path, quick: bool) -> None:
    import transformers

    torch.manual_seed(0)
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    transformers.BertForPreTraining(transformers.BertConfig(**small if quick else {})).save_pretrained(folder)


def texts() -> list[Tensor]:
    torch.manual_seed(0)
    return list(torch.randint(1000, 30000, (TEXTS, 1, LENGTH)))


def our_side(folder: Path) -> Callable[[str], Maps | None]:
    model = read_back(folder, bert, "bert").encoder

    @torch.inference_mode()
    def look(tokens: Tensor, **chosen: Any) -> list[Tensor]:
        with record(model, **chosen) as tape:
            model(tokens)
        return list(tape.values())

    @torch.inference_mode()
    def work(wanted: str) -> Maps | None:
        if wanted == "first":
            return [weights.numpy() for weights in look(texts()[0])]
        with packed(model):
            for tokens in texts():
                if wanted == "none":
                    model(tokens)
                else:
                    look(tokens, **ONE_HEAD if wanted == "one head" else {})
        return None

    return work


def their_side(folder: Path) -> Callable[[str], Maps | None]:
    import transformers

    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.inference_mode()
    def work(wanted: str) -> Maps | None:
        if wanted == "first":
            return [weights.numpy() for weights in model(texts()[0], output_attentions=True).attentions]
        for tokens in texts():
            model(tokens, output_attentions=True)
        return None

    return work
