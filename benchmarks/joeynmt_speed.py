"""Training speed of the recurrent translators beside JoeyNMT's model of the same shape, on the same batches.

    python benchmarks/joeynmt_speed.py --data DIR        (needs: pip install --no-deps joeynmt==2.3.0)

Both sides do a whole step: forward, smoothed loss, backward, clipping, Adam. Each lives in a process of its own, as its
users run it (ours asks the allocator to keep freed memory, as the training loop does). They take turns round by
round, never at once, and the side that goes first changes; the ratio of a round is our tokens per second over theirs,
and the median of the rounds is reported. JoeyNMT's encoder wants batches sorted by source length, so both get them so.

Two kinds of batches, each the same for both sides: "random" ones of 128 sentences in any order, as JoeyNMT's loader
makes them (it does not group by length), and "grouped" ones of similar lengths, as ours makes them.
"""

import argparse
import logging
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.data.batching import Place
from regard.recipes import load_recipe
from regard.recipes.jobs import named_job
from regard.tasks.batches import Batch
from regard.tasks.translate import Translation
from regard.training.freed_memory import keep_freed_memory
from regard.training.optimizers import make_optimizer
from regard.training.run import Run
from result_files import write_result

SIDES = ("regard", "joeynmt")
KINDS = ("random", "grouped")
ROUNDS, BATCHES, SENTENCES = 7, 10, 128

# Name, recipe, overrides, JoeyNMT's attention and feeding, its encoder's size per direction, the ratio we promise.
Case = tuple[str, str, list[str], dict[str, Any], int, float]
CASES: list[Case] = [
    ("Luong, no feeding", "multi30k-luong", [], dict(attention="luong", input_feeding=False), 128, 3.0),
    ("Luong, feeding", "multi30k-luong", ["model.feeding=true"], dict(attention="luong", input_feeding=True), 128, 1.5),
    ("Bahdanau", "multi30k-bahdanau", [], dict(attention="bahdanau", input_feeding=True), 256, 1.5),
]


def joey_model(vocabulary: int, decoder: dict[str, Any], encoder_size: int, dropout: float) -> Any:
    """Their model: GRUs, embeddings and states of 256, the softmax tied to the embeddings like ours."""
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    words = Vocabulary([f"w{number}" for number in range(vocabulary - 4)], special)
    embeddings = dict(embedding_dim=256, scale=False, dropout=dropout)
    shape = dict(type="recurrent", rnn_type="gru", num_layers=1, dropout=dropout, embeddings=embeddings)
    config = dict(
        tied_embeddings=True,
        tied_softmax=True,
        encoder=dict(shape, hidden_size=encoder_size, bidirectional=True),
        decoder=dict(shape, hidden_size=256, hidden_dropout=dropout, init_hidden="bridge", **decoder),
    )
    model = build_model(config, words, words)
    model.loss_function = ("crossentropy", 0.1)
    return model


def joey_step(model: Any) -> Callable[[Batch], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    # Their numbers of our first four tokens: padding, start, end, unknown.
    theirs = torch.cat([torch.tensor([1, 2, 3, 0]), torch.arange(4, len(model.src_vocab))])

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        source_mask = (batch.source != 0).unsqueeze(1)
        loss, *_ = model(
            return_type="loss",
            src=theirs[batch.source],
            src_length=source_mask.sum((1, 2)),
            src_mask=source_mask,
            trg_input=theirs[batch.told],
            trg=theirs[batch.said],
            trg_mask=(batch.said != 0).unsqueeze(1),
        )
        (loss / int((batch.said != 0).sum())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def our_step(model: nn.Module, task: Translation) -> Callable[[Batch], None]:
    optimizer = make_optimizer(model, task.training)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def sorted_by_source(batch: Batch) -> Batch:
    order: Tensor = (batch.source != 0).sum(1).argsort(descending=True)
    return Batch(batch.source[order], batch.told[order], batch.said[order])


def mixed(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Batches of sentences in random order, whatever their lengths."""
    pool = [
        tuple(row[row != 0] for row in rows)
        for batch in islice(batches, 10 * BATCHES)
        for rows in zip(batch.source, batch.told, batch.said, strict=True)
    ]
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0)).tolist()
    for first in range(0, BATCHES * SENTENCES, SENTENCES):
        chosen = [pool[item] for item in order[first : first + SENTENCES]]
        yield Batch(*(pad_sequence(list(rows), batch_first=True) for rows in zip(*chosen, strict=True)))


def work(side: str, case: Case, kind: str, data: str | None, pipe: Any) -> None:
    """A process of one side: whenever it is asked, it trains on all batches and answers with the seconds."""
    _, recipe_name, overrides, decoder, encoder_size, _ = case
    logging.disable(logging.INFO)
    torch.manual_seed(0)
    recipe = load_recipe(recipe_name, overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", recipe.resolved())
        model, task = named_job("translate").prepare(recipe, run, data)
        assert isinstance(task, Translation)
        made = (batch.made() for batch, _ in task.batches(Place(0, 0)))
        chosen = mixed(made) if kind == "random" else islice(made, BATCHES)
        batches = [sorted_by_source(batch) for batch in chosen]
    if side == "regard":
        keep_freed_memory()
        step = our_step(model.train(), task)
    else:
        dropout = model.config.dropout  # type: ignore[union-attr]
        model = joey_model(len(task.tokenizer), decoder, encoder_size, dropout)
        step = joey_step(model.train())
    step(batches[0])
    tokens = sum(int((batch.said != 0).sum()) for batch in batches)
    pipe.send({"tokens": tokens, "parameters": sum(each.numel() for each in model.parameters())})
    while pipe.recv() == "go":
        started = time.perf_counter()
        for batch in batches:
            step(batch)
        pipe.send(time.perf_counter() - started)


def compare(case: Case, kind: str, data: str | None) -> dict[str, Any]:
    processes = multiprocessing.get_context("spawn")
    pipes, facts = {}, {}
    for side in SIDES:
        ours, theirs = processes.Pipe()
        processes.Process(target=work, args=(side, case, kind, data, theirs), daemon=True).start()
        pipes[side], facts[side] = ours, ours.recv()
    rounds: list[dict[str, float]] = []
    for number in range(ROUNDS):
        seconds = {}
        for side in SIDES if number % 2 else reversed(SIDES):
            pipes[side].send("go")
            seconds[side] = pipes[side].recv()
        rounds.append(seconds)
    for pipe in pipes.values():
        pipe.send("stop")
    ratios = sorted(seconds["joeynmt"] / seconds["regard"] for seconds in rounds)
    speeds = {
        side: round(facts[side]["tokens"] / statistics.median(seconds[side] for seconds in rounds)) for side in SIDES
    }
    median = statistics.median(ratios)
    print(f"{case[0]}, {kind} batches: {median:.2f} times JoeyNMT (promised {case[-1]}); {speeds}", flush=True)
    return {
        "parameters": {side: facts[side]["parameters"] for side in SIDES},
        "tokens_per_second": speeds,
        "median_ratio": round(median, 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "promised": case[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the named data sets")
    arguments = parser.parse_args()
    results = {kind: {case[0]: compare(case, kind, arguments.data) for case in CASES} for kind in KINDS}
    numbers = {"joeynmt": version("joeynmt"), "rounds": ROUNDS, "batches_per_round": BATCHES, "batches": results}
    print(write_result("joeynmt-speed", "python benchmarks/joeynmt_speed.py", numbers))


if __name__ == "__main__":
    main()
