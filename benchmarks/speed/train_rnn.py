"""A training step of the recurrent translators on Multi30k: Luong's without and with feeding, and Bahdanau's.

A step is forward, smoothed loss, backward, clipping, Adam. Peers: JoeyNMT and Eole, with models of the same shape
(GRUs, embeddings and states of 256, one matrix for all words), where they are installed. Each side lives in a process
of its own, ours with the allocator's settings of the training loop; all get the same batches, sorted by source length
as JoeyNMT's encoder wants them.

Two kinds of batches: "random" ones of 128 sentences in any order, as JoeyNMT's loader makes them (it does not group by
length), and "grouped" ones of similar lengths, as ours and Eole's make them.
"""

import argparse
import importlib.util
import logging
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.data.batching import Place
from regard.layers.products import quicken
from regard.recipes import load_recipe
from regard.recipes.jobs import named_job
from regard.tasks.batches import Batch
from regard.tasks.translate import Translation
from regard.training.freed_memory import keep_freed_memory
from regard.training.optimizers import make_optimizer
from regard.training.run import Run
from speed.apart import Apart
from speed.peers import eole_translator, joey_number, joey_words, over, smoothed, training_step
from speed.rounds import ROUNDS, compare

KINDS = ("random", "grouped")
BATCHES, SENTENCES, SIZE = 6, 128, 256
SMOOTHING = 0.1

# By name: recipe, its overrides, JoeyNMT's attention, feeding, Eole's attention, and the ratio we promise.
Case = tuple[str, list[str], str, bool, str, float]
CASES: dict[str, Case] = {
    "Luong, no feeding": ("multi30k-luong", [], "luong", False, "general", 3.0),
    "Luong, feeding": ("multi30k-luong", ["model.feeding=true"], "luong", True, "general", 1.5),
    "Bahdanau": ("multi30k-bahdanau", [], "bahdanau", True, "mlp", 1.5),
}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks train-rnn", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--batches", type=int, default=BATCHES, help="of a round")
    arguments = parser.parse_args(options)
    peers = {"JoeyNMT": ("joeynmt", joey_side), "Eole": ("eole", eole_side)}
    there = {name: make for name, (package, make) in peers.items() if importlib.util.find_spec(package)}
    for name in peers.keys() - there.keys():
        print(f"{name} is not installed and is left out")
    found: dict[str, Any] = {}
    for kind in KINDS:
        for name, case in CASES.items():
            print(f"{name}, {kind} batches", flush=True)
            given = (case, kind, arguments.data, arguments.batches)
            sides = {side: Apart(make, *given) for side, make in {"regard": our_side, **there}.items()}
            pairs: dict[tuple[str, str], float | None] = {("regard", peer): case[-1] for peer in there}
            found[f"{name}, {kind}"] = compare(sides, pairs, arguments.rounds)
            for side in sides.values():
                side.end()
    return {"batches_per_round": arguments.batches, "cases": found}


def our_side(*given: Any) -> Callable[[], None]:
    model, task, batches = prepared(*given)
    keep_freed_memory()  # as the training loop does, and quicken
    quicken(model)

    def loss_of(batch: Batch) -> Tensor:
        loss = task.loss(model, batch)
        return loss.total / loss.count

    return over(batches, training_step(model, loss_of, make_optimizer(model, task.training)))


def joey_side(case: Case, *given: Any) -> Callable[[], None]:
    """Their encoder's states are as wide as ours: 128 a direction for Luong, 256 for Bahdanau."""
    from joeynmt.model import build_model

    ours, task, batches = prepared(case, *given)
    _, _, attention, feeding, _, _ = case
    dropout = ours.config.dropout  # type: ignore[union-attr]
    embeddings = dict(embedding_dim=SIZE, scale=False, dropout=dropout)
    shape = dict(type="recurrent", rnn_type="gru", num_layers=1, dropout=dropout, embeddings=embeddings)
    decoder = dict(hidden_dropout=dropout, init_hidden="bridge", attention=attention, input_feeding=feeding)
    encoder_size = SIZE if attention == "bahdanau" else SIZE // 2
    words = joey_words(len(task.tokenizer) - 4)
    config = dict(
        tied_embeddings=True,
        tied_softmax=True,
        encoder=dict(shape, hidden_size=encoder_size, bidirectional=True),
        decoder=dict(shape, hidden_size=SIZE, **decoder),
    )
    model = build_model(config, words, words).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    number = joey_number([1, 2, 3, 0], len(words))  # of our padding, start, end and unknown

    def loss_of(batch: Batch) -> Tensor:
        mask = (batch.source != 0).unsqueeze(1)
        total, *_ = model(
            return_type="loss",
            src=number[batch.source],
            src_length=mask.sum((1, 2)),
            src_mask=mask,
            trg_input=number[batch.told],
            trg=number[batch.said],
            trg_mask=(batch.said != 0).unsqueeze(1),
        )
        return total / int((batch.said != 0).sum())

    return over(batches, training_step(model, loss_of))


def eole_side(case: Case, *given: Any) -> Callable[[], None]:
    from eole.config.models import CustomModelConfig

    ours, task, batches = prepared(case, *given)
    _, _, _, feeding, attention, _ = case
    sizes = {f"{side}word_vec_size": SIZE for side in ("", "src_", "tgt_")}
    shape = dict(layers=1, hidden_size=SIZE, rnn_type="GRU")
    config = CustomModelConfig(
        layers=1,
        hidden_size=SIZE,
        share_embeddings=True,
        share_decoder_embeddings=True,
        embeddings={"position_encoding_type": None, **sizes},
        encoder=dict(shape, encoder_type="brnn"),
        decoder=dict(shape, decoder_type="rnn", global_attention=attention),
        input_feed=int(feeding),
    )
    model = eole_translator(config, len(task.tokenizer), ours.config.dropout)  # type: ignore[union-attr, arg-type]

    def loss_of(batch: Batch) -> Tensor:
        target = torch.cat([batch.told[:, :1], batch.said], dim=1)
        states = model(batch.source, target, (batch.source != 0).sum(1)).dec_out
        return smoothed(model.generator(states), batch.said, 0, SMOOTHING)

    return over(batches, training_step(model, loss_of))


def prepared(case: Case, kind: str, data: str | None, count: int) -> tuple[nn.Module, Translation, list[Batch]]:
    """Our model, ready to be trained, and the batches that every side gets."""
    logging.disable(logging.INFO)
    torch.manual_seed(0)
    recipe = load_recipe(case[0], case[1])
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", recipe.resolved())
        translator, task = named_job("translate").prepare(recipe, run, data)
        assert isinstance(task, Translation)
        made = (batch.made() for batch, _ in task.batches(Place(0, 0)))
        chosen = mixed(made, count) if kind == "random" else islice(made, count)
        return translator.model.train(), task, [sorted_by_source(batch) for batch in chosen]


def mixed(batches: Iterator[Batch], count: int) -> Iterator[Batch]:
    """Batches of sentences in random order, whatever their lengths."""
    pool = [
        tuple(row[row != 0] for row in rows)
        for batch in islice(batches, 100)
        for rows in zip(batch.source, batch.told, batch.said, strict=True)
    ]
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0)).tolist()
    for first in range(0, count * SENTENCES, SENTENCES):
        chosen = [pool[item] for item in order[first : first + SENTENCES]]
        yield Batch(*(pad_sequence(list(rows), batch_first=True) for rows in zip(*chosen, strict=True)))


def sorted_by_source(batch: Batch) -> Batch:
    order: Tensor = (batch.source != 0).sum(1).argsort(descending=True)
    return Batch(batch.source[order], batch.told[order], batch.said[order])
