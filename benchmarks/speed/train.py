"""A training step of a Transformer of 3 + 3 layers of 256, on real batches of Multi30k.

A step is forward, smoothed loss, backward, clipping, Adam. Peers: Hugging Face transformers (Marian) and torch's
nn.Transformer, both with our weights, whose losses must agree with ours within 1e-4 before anything is measured;
x-transformers, JoeyNMT and Eole with models of the same shape, where they are installed. Beside them runs a plain
product of two matrices, in torch and in numpy: the better of its rates is the limit of this machine, and the share of
it that our step reaches is told.
"""

import argparse
import importlib.util
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.data.named import data_folder, named
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import padded
from regard.models import transformer
from regard.tasks.batches import Batch
from regard.tasks.translate import sequence_loss
from regard.training.optimizers import make_optimizer
from regard.training.settings import Training
from speed.peers import eole_translator, read_back
from speed.rounds import ROUNDS, compare

PAD, END = 0, 1
SIZE, LAYERS, HEADS, DROPOUT, SMOOTHING, VOCABULARY = 256, 3, 4, 0.1, 0.1, 8000
BATCH_TOKENS, BATCHES, PROMISED, SHARE = 4096, 4, 1.15, 0.6
SIDE = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": 4 * SIZE}
SQUARE = 1024  # sides of the matrices whose product is the limit
Step = Callable[[Batch], None]


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks train", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(options)
    batches = list(islice(real_batches(arguments.data), BATCHES))
    theirs = marian()
    ours = read_back(theirs, transformer, "transformer", transformer.public_names)
    plain = Plain(ours)
    agree(batches[0], ours, theirs, plain)
    steps: dict[str, Step] = {
        "regard": our_step(ours.train()),
        "transformers": peer_step(theirs.train(), partial(marian_logits, theirs)),
        "nn.Transformer": peer_step(plain.train(), plain),
    }
    for name, (package, make) in {
        "x-transformers": ("x_transformers", x_step),
        "JoeyNMT": ("joeynmt", joey_step),
        "Eole": ("eole", eole_step),
    }.items():
        if importlib.util.find_spec(package):
            steps[name] = make()
        else:
            print(f"{name} is not installed and is left out")
    works: dict[str, Callable[[], Any]] = {
        name: (lambda step=step: [step(batch) for batch in batches]) for name, step in steps.items()
    }
    left, right = torch.randn(SQUARE, SQUARE), torch.randn(SQUARE, SQUARE)
    works["product, torch"] = lambda: [left @ right for _ in range(20)]
    works["product, numpy"] = lambda: [np.matmul(left.numpy(), right.numpy()) for _ in range(20)]
    found = compare(works, {("regard", name): PROMISED for name in steps if name != "regard"}, arguments.rounds)
    return {"parameters": sum(each.numel() for each in ours.parameters()), **found, **limits(found, ours, batches)}


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


def smoothed(logits: Tensor, said: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), said.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


@torch.no_grad()
def agree(batch: Batch, ours: Any, theirs: Any, plain: Plain) -> None:
    for model in (ours, theirs, plain):
        model.eval()
    loss = sequence_loss(ours, batch, PAD, SMOOTHING)
    found = {
        "regard": float(loss.total / loss.count),
        "transformers": smoothed(marian_logits(theirs, batch), batch.said).item(),
        "nn.Transformer": smoothed(plain(batch), batch.said).item(),
    }
    print(", ".join(f"{name}: loss {value:.6f}" for name, value in found.items()), flush=True)
    if max(found.values()) - min(found.values()) > 1e-4:
        raise SystemExit("the losses differ by more than 1e-4: nothing is measured")


def our_step(model: Any) -> Step:
    optimizer = make_optimizer(model, Training(optimizer="adam", learning_rate=1e-5))

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss = sequence_loss(model, batch, PAD, SMOOTHING)
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def peer_step(model: Any, logits: Callable[[Batch], Tensor]) -> Step:
    """With everything of torch that makes it fast: the fused Adam, too."""
    return with_loss(model, lambda batch: smoothed(logits(batch), batch.said))


def with_loss(model: Any, loss_of: Callable[[Batch], Tensor]) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def x_step() -> Step:
    from x_transformers import XTransformer

    shape = dict(num_tokens=VOCABULARY, depth=LAYERS, heads=HEADS, attn_flash=True, attn_dim_head=SIZE // HEADS)
    sides = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in shape.items()}
    model = XTransformer(dim=SIZE, enc_max_seq_len=256, dec_max_seq_len=256, tie_token_emb=True, pad_value=PAD, **sides)
    model.train()

    def loss_of(batch: Batch) -> Tensor:
        target = torch.cat([batch.told[:, :1], batch.said], dim=1)
        return model(batch.source, target, mask=batch.source != PAD)

    return with_loss(model, loss_of)


def joey_step() -> Step:
    """Their model, with the same settings as in joeynmt_speed.py where they apply."""
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    words = Vocabulary([f"w{number}" for number in range(VOCABULARY - 2)], special)
    number = torch.cat([torch.tensor([1, 3]), torch.arange(4, VOCABULARY + 2)])  # of each of our tokens there
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

    return with_loss(model, loss_of)


def eole_step() -> Step:
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
        return smoothed(model.generator(states), batch.said)

    return with_loss(model, loss_of)


def limits(found: dict[str, Any], ours: Any, batches: list[Batch]) -> dict[str, Any]:
    """Floating-point operations of our steps, by torch's own count, beside what a plain product reaches."""
    flops = 0
    for batch in batches:
        with FlopCounterMode(display=False) as counter:
            sequence_loss(ours, batch, PAD, SMOOTHING).total.backward()
        flops += counter.get_total_flops()
    seconds = found["median_seconds"]
    products = {name: 20 * 2 * SQUARE**3 / seconds[f"product, {name}"] / 1e9 for name in ("torch", "numpy")}
    rate = flops / seconds["regard"] / 1e9
    share = rate / max(products.values())
    print(f"our step runs at {rate:.0f} GFLOP/s, {share:.0%} of a plain product (promised {SHARE:.0%})")
    return {"gflops": {"step": round(rate, 1), **products}, "share_of_limit": round(share, 3), "promised_share": SHARE}
