"""A training step of a Transformer of 3 + 3 layers of 256, on real batches of Multi30k.

A step is forward, smoothed loss, backward, clipping, Adam. Peers: Hugging Face transformers (Marian) and torch's
nn.Transformer, both with our weights, whose losses must agree with ours within 1e-4 before anything is measured;
x-transformers, JoeyNMT and Eole with models of the same shape, where they are installed. Every side has a process of
its own, ours with what the training loop does before the first step. Beside them runs a plain product of two matrices,
in torch, in numpy and as our steps multiply (oneDNN, where that is better): the best of its rates is the limit of this
machine, and the share of it that our step reaches is told.
"""

import argparse
import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.data.named import data_folder, named
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import padded
from regard.layers.products import multiply, quicken
from regard.models import transformer
from regard.tasks.batches import Batch
from regard.tasks.translate import sequence_loss
from regard.training.freed_memory import keep_freed_memory
from regard.training.optimizers import make_optimizer
from regard.training.settings import Training
from speed.apart import Apart
from speed.peers import Step, eole_translator, joey_number, joey_words, over, read_back, smoothed, training_step
from speed.rounds import ROUNDS, compare

PAD, END = 0, 1
SIZE, LAYERS, HEADS, DROPOUT, SMOOTHING, VOCABULARY = 256, 3, 4, 0.1, 0.1, 8000
BATCH_TOKENS, BATCHES, PROMISED, SHARE = 4096, 2, 1.15, 0.6
SIDE = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 4 * SIZE}
SQUARE, PRODUCTS = 1024, 20  # sides of the matrices whose product is the limit, and how many of them
PRODUCT: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "torch": torch.matmul,
    "numpy": lambda left, right: np.matmul(left.numpy(), right.numpy()),
    "regard": multiply,
}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks train", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    batches = list(islice(real_batches(arguments.data), BATCHES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save([(batch.source, batch.told, batch.said) for batch in batches], folder / "batches")
        marian().save_pretrained(folder / "hf")
        ours = read_back(folder / "hf", transformer, "transformer")
        agree(batches[0], ours, their_model(folder), Plain(ours))
        works: dict[str, Callable[[], Any]] = {}
        for side, (package, make) in SIDES.items():
            if importlib.util.find_spec(package):
                works[side] = Apart(over_batches, make, folder)
            else:
                print(f"{side} is not installed and is left out")
        works |= {f"product, {kind}": Apart(product, kind) for kind in PRODUCT}
        pairs: dict[tuple[str, str], float | None] = {("regard", side): PROMISED for side in works if side in PEERS}
        found = compare(works, pairs, arguments.rounds)
    return {"parameters": sum(each.numel() for each in ours.parameters()), **found, **limits(found, ours, batches)}


def over_batches(make: Callable[[Path], Step], folder: Path) -> Callable[[], None]:
    """A side in its process: a step with each batch."""
    batches = [Batch(*rows) for rows in torch.load(folder / "batches", weights_only=True)]
    return over(batches, make(folder))


def product(kind: str) -> Callable[[], None]:
    left, right = torch.randn(SQUARE, SQUARE), torch.randn(SQUARE, SQUARE)

    def work() -> None:
        for _ in range(PRODUCTS):
            PRODUCT[kind](left, right)

    return work


def real_batches(data: str | None) -> Iterator[Batch]:
    """Sentences of similar length together, some 4,096 tokens of target at once."""
    pairs = list(islice(named("multi30k", data_folder(data), "train"), 8000))
    tokenizer = Tokenizer.train("bpe", [side for pair in pairs for side in (pair.source, pair.target)], VOCABULARY - 2)
    sources = list(tokenizer.encode_all([pair.source for pair in pairs]))
    targets = list(tokenizer.encode_all([pair.target for pair in pairs]))
    order = sorted(range(len(pairs)), key=lambda item: len(targets[item]))
    middle = [item for item in order if len(targets[item]) in range(10, 25)]
    for first in range(0, len(middle), len(middle) // BATCHES):
        items: list[int] = []
        for item in middle[first:]:
            if (len(items) + 1) * (len(targets[item]) + 1) > BATCH_TOKENS:
                break
            items.append(item)
        said = [[*(token + 2 for token in targets[item]), END] for item in items]
        told = [[PAD, *row[:-1]] for row in said]
        source = [[*(token + 2 for token in sources[item]), END] for item in items]
        yield Batch(padded(source, PAD), padded(told, PAD), padded(said, PAD))


def marian() -> Any:
    import transformers

    torch.manual_seed(0)
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in SIDE.items()}
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=SIZE,
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        **sides,
    )
    return transformers.MarianMTModel(config)


def marian_logits(model: Any, batch: Batch) -> Tensor:
    mask = (batch.source != PAD).long()
    return model(input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.told).logits


class Plain(nn.Module):
    """nn.Transformer with embeddings and sines around it, filled with our weights."""

    def __init__(self, ours: Any):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.register_buffer("places", ours.positions(torch.arange(256)[None])[0].detach().clone())
        self.body = nn.Transformer(SIZE, HEADS, LAYERS, LAYERS, 4 * SIZE, DROPOUT, batch_first=True)
        self.body.encoder.norm = self.body.decoder.norm = None
        self.dropout = nn.Dropout(DROPOUT)
        self.load_state_dict(self.translated(ours), strict=False)

    def translated(self, ours: Any) -> dict[str, Tensor]:
        weights = {"embedding.weight": ours.embedding.weight}
        table = {
            "self_attn.in_proj_": "self_attention.query_key_value.",
            "self_attn.out_proj.": "self_attention.output.",
            "multihead_attn.in_proj_": "cross_attention.query_key_value.",
            "multihead_attn.out_proj.": "cross_attention.output.",
            "linear1.": "feed_forward.expand.",
            "linear2.": "feed_forward.contract.",
        }
        norms = {
            "encoder": {"norm1.": "around_self_attention.norm.", "norm2.": "around_feed_forward.norm."},
            "decoder": {
                "norm1.": "around_self_attention.norm.",
                "norm2.": "around_cross_attention.norm.",
                "norm3.": "around_feed_forward.norm.",
            },
        }
        known = ours.state_dict()
        for side, own in norms.items():
            for number in range(LAYERS):
                for theirs, mine in (table | own).items():
                    for kind in ("weight", "bias"):
                        name = f"{side}.layers.{number}.{mine}{kind}"
                        if name in known:
                            weights[f"body.{side}.layers.{number}.{theirs}{kind}"] = known[name]
        return weights

    def forward(self, batch: Batch) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(batch.told.shape[1])
        blind = batch.source == PAD
        states = self.body(
            self.embed(batch.source),
            self.embed(batch.told),
            tgt_mask=causal,
            src_key_padding_mask=blind,
            memory_key_padding_mask=blind,
            tgt_is_causal=True,
        )
        return F.linear(states, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(SIZE) + self.places[: tokens.shape[1]])


@torch.no_grad()
def agree(batch: Batch, ours: Any, theirs: Any, plain: Plain) -> None:
    for model in (ours, theirs, plain):
        model.eval()
    loss = sequence_loss(ours, batch, PAD, SMOOTHING)
    found = {
        "regard": float(loss.total / loss.count),
        "transformers": loss_of_logits(marian_logits(theirs, batch), batch).item(),
        "nn.Transformer": loss_of_logits(plain(batch), batch).item(),
    }
    print(", ".join(f"{name}: loss {value:.6f}" for name, value in found.items()), flush=True)
    if max(found.values()) - min(found.values()) > 1e-4:
        raise SystemExit("the losses differ by more than 1e-4: nothing is measured")


def our_step(folder: Path) -> Step:
    keep_freed_memory()  # as the training loop does, and below: quicken
    model = read_back(folder / "hf", transformer, "transformer").train()
    quicken(model)
    return step_of(model)


def step_of(model: Any) -> Step:
    def loss_of(batch: Batch) -> Tensor:
        loss = sequence_loss(model, batch, PAD, SMOOTHING)
        return loss.total / loss.count

    return training_step(model, loss_of, make_optimizer(model, Training(optimizer="adam", learning_rate=1e-5)))


def their_model(folder: Path) -> Any:
    import transformers

    return transformers.MarianMTModel.from_pretrained(folder / "hf")


def marian_step(folder: Path) -> Step:
    model = their_model(folder).train()
    return training_step(model, lambda batch: loss_of_logits(marian_logits(model, batch), batch))


def plain_step(folder: Path) -> Step:
    model = Plain(read_back(folder / "hf", transformer, "transformer")).train()
    return training_step(model, lambda batch: loss_of_logits(model(batch), batch))


def loss_of_logits(logits: Tensor, batch: Batch) -> Tensor:
    return smoothed(logits, batch.said, PAD, SMOOTHING)


def x_step(_: Path) -> Step:
    from x_transformers import XTransformer

    shape = dict(num_tokens=VOCABULARY, depth=LAYERS, heads=HEADS, attn_flash=True, attn_dim_head=SIZE // HEADS)
    sides = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in shape.items()}
    model = XTransformer(dim=SIZE, enc_max_seq_len=256, dec_max_seq_len=256, tie_token_emb=True, pad_value=PAD, **sides)
    model.train()

    def loss_of(batch: Batch) -> Tensor:
        target = torch.cat([batch.told[:, :1], batch.said], dim=1)
        return model(batch.source, target, mask=batch.source != PAD)

    return training_step(model, loss_of)


def joey_step(_: Path) -> Step:
    from joeynmt.model import build_model

    words = joey_words(VOCABULARY - 2)
    number = joey_number([1, 3], VOCABULARY + 2)  # of our padding and end
    embeddings = dict(embedding_dim=SIZE, scale=True, dropout=0.0)
    shape = dict(
        type="transformer", num_layers=LAYERS, num_heads=HEADS, hidden_size=SIZE, ff_size=4 * SIZE, dropout=DROPOUT
    )
    side = dict(shape, embeddings=embeddings)
    model = build_model(dict(tied_embeddings=True, tied_softmax=True, encoder=side, decoder=side), words, words)
    model.loss_function = ("crossentropy", SMOOTHING)
    model.train()

    def loss_of(batch: Batch) -> Tensor:
        mask = (batch.source != PAD).unsqueeze(1)
        total, *_ = model(
            return_type="loss",
            src=number[batch.source],
            src_length=mask.sum((1, 2)),
            src_mask=mask,
            trg_input=torch.cat([torch.full_like(batch.told[:, :1], 2), number[batch.told[:, 1:]]], dim=1),
            trg=number[batch.said],
            trg_mask=(batch.said != PAD).unsqueeze(1),
        )
        return total / int((batch.said != PAD).sum())

    return training_step(model, loss_of)


def eole_step(_: Path) -> Step:
    from eole.config.models import TransformerModelConfig

    sizes = {f"{side}word_vec_size": SIZE for side in ("", "src_", "tgt_")}
    config = TransformerModelConfig(
        layers=LAYERS,
        hidden_size=SIZE,
        heads=HEADS,
        transformer_ff=4 * SIZE,
        add_qkvbias=True,
        add_ffnbias=True,
        share_embeddings=True,
        share_decoder_embeddings=True,
        embeddings={"position_encoding": True, "position_encoding_type": "SinusoidalInterleaved", **sizes},
    )
    model = eole_translator(config, VOCABULARY, DROPOUT)

    def loss_of(batch: Batch) -> Tensor:
        target = torch.cat([batch.told[:, :1], batch.said], dim=1)
        states = model(batch.source, target, (batch.source != PAD).sum(1)).dec_out
        return loss_of_logits(model.generator(states), batch)

    return training_step(model, loss_of)


def limits(found: dict[str, Any], ours: Any, batches: list[Batch]) -> dict[str, Any]:
    """Floating-point operations of our steps, by torch's own count, beside what a plain product reaches."""
    flops = 0
    for batch in batches:
        # torch's own count knows torch's own products alone.
        with (
            mock.patch("regard.layers.packed._available", return_value=False),
            mock.patch("regard.layers.products.are_better", return_value=False),
            FlopCounterMode(display=False) as counter,
        ):
            sequence_loss(ours, batch, PAD, SMOOTHING).total.backward()
        flops += counter.get_total_flops()
    seconds = found["median_seconds"]
    products = {name: PRODUCTS * 2 * SQUARE**3 / seconds[f"product, {name}"] / 1e9 for name in PRODUCT}
    rate = flops / seconds["regard"] / 1e9
    share = rate / max(products.values())
    print(f"our step runs at {rate:.0f} GFLOP/s, {share:.0%} of a plain product (promised {SHARE:.0%})")
    return {"gflops": {"step": round(rate, 1), **products}, "share_of_limit": round(share, 3), "promised_share": SHARE}


SIDES: dict[str, tuple[str, Callable[[Path], Step]]] = {  # their packages, and what makes a step of theirs
    "regard": ("regard", our_step),
    "transformers": ("transformers", marian_step),
    "nn.Transformer": ("torch", plain_step),
    "x-transformers": ("x_transformers", x_step),
    "JoeyNMT": ("joeynmt", joey_step),
    "Eole": ("eole", eole_step),
}
PEERS = SIDES.keys() - {"regard"}
