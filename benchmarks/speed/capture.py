"""What looking costs: BERT-base with random weights over 512 tokens, all attention weights kept.

The peer is Hugging Face transformers with `eager` attention and `output_attentions=True`, the only way to its weights.
Ours are recomputed exactly behind the fused kernel; they must agree within 1e-5. One head of one layer is compared with
no looking at all: its ratio is what is left of the speed.
"""

import argparse
from typing import Any

import torch

from regard.attention import record
from regard.models import bert
from speed.peers import same_as
from speed.rounds import ROUNDS, compare

LENGTH, AGREE = 512, 1e-5
PROMISED = {("regard, all", "transformers, all"): 1.5, ("regard, one head", "regard, none"): 0.95}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks capture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3 * ROUNDS)  # five per cent are easily lost in noise
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    import transformers

    torch.manual_seed(0)
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    config = transformers.BertConfig(**small if arguments.quick else {}, attn_implementation="eager")
    theirs = transformers.BertForPreTraining(config).eval()
    ours = same_as(theirs, bert, "bert").encoder
    tokens = torch.randint(1000, 30000, (1, LENGTH))

    @torch.inference_mode()
    def look(**chosen: Any) -> dict[str, torch.Tensor]:
        with record(ours, **chosen) as tape:
            ours(tokens)
        return dict(tape.items())

    @torch.inference_mode()
    def look_at_theirs() -> Any:
        return theirs.bert(tokens, output_attentions=True).attentions

    @torch.inference_mode()
    def read() -> None:
        ours(tokens)

    for found, wanted in zip(look().values(), look_at_theirs(), strict=True):
        if (found - wanted).abs().max() > AGREE:
            raise SystemExit("the weights differ by more than 1e-5: nothing is measured")
    sides = {
        "regard, all": look,
        "transformers, all": look_at_theirs,
        "regard, one head": lambda: look(layers=[1], heads=[0]),
        "regard, none": read,
    }
    return {"tokens": LENGTH, **compare(sides, PROMISED, arguments.rounds)}
