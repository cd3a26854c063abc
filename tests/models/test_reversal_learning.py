"""Do they learn to look? A sequence is said backwards; whoever has learnt it looks along the anti-diagonal."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from jaxtyping import config as shape_checks
from torch import nn

from regard.attention import record
from regard.models.bahdanau import Bahdanau
from regard.models.bahdanau import Config as BahdanauConfig
from regard.models.luong import Config as LuongConfig
from regard.models.luong import Luong
from regard.tasks.batches import Batch
from regard.tasks.translate import sequence_loss

PAD, START, END, SYMBOLS, SIZE, ROWS = 0, 1, 2, 8, 32, 64
LENGTHS = range(2, 6)
WORDS: dict[str, Any] = dict(vocabulary=3 + SYMBOLS, embedding_size=SIZE, size=SIZE)


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost more than the learning."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


def some(length: int, draw: torch.Generator) -> Batch:
    """Random sequences of one length and what must be said of them."""
    source = torch.randint(3, 3 + SYMBOLS, (ROWS, length), generator=draw)
    start, end = torch.full((ROWS, 1), START), torch.full((ROWS, 1), END)
    backwards = source.flip(1)
    return Batch(torch.cat([source, end], 1), torch.cat([start, backwards], 1), torch.cat([backwards, end], 1))


def train(model: Any, steps: int) -> None:
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.01)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for step in range(steps):
        loss = sequence_loss(model, some(LENGTHS[step % len(LENGTHS)], draw), PAD)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        slower.step()


@torch.inference_mode()
def share_said(model: Any, batches: list[Batch]) -> float:
    """How many sequences are said backwards without a fault when the model hears only itself."""
    right = []
    for batch in batches:
        state, tokens = model.eval().start(batch.source), batch.told[:, 0]
        said = []
        for _ in range(batch.said.shape[1]):
            logits, state = model.step(tokens, state)
            said.append(tokens := logits.argmax(-1))
        right.append((torch.stack(said, 1) == batch.said).all(1))
    return torch.cat(right).float().mean().item()


@torch.inference_mode()
def share_looked(model: Any, batches: list[Batch]) -> float:
    """How many words are said looking at most at the word itself."""
    right = []
    for batch in batches:
        with record(model.eval()) as tape:
            model.decode(batch.source, batch.told)
        words = batch.source.shape[1] - 1
        looked = tape["attention"][:, 0, :words].argmax(-1)
        right.append((looked == torch.arange(words - 1, -1, -1)).flatten())
    return torch.cat(right).float().mean().item()


def luong(score: str, align: str, **changes: Any) -> Luong:
    options = dict(layers=1, cell="gru", bidirectional=True, feeding=False, dropout=0.0) | changes
    return Luong(LuongConfig(**WORDS, **options, score=score, align=align))


LEARNERS = {
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**WORDS, alignment_size=SIZE, readout_size=SIZE)),
    "dot soft": lambda: luong("dot", "soft"),
    "general soft": lambda: luong("general", "soft"),
    "additive soft": lambda: luong("additive", "soft"),
    "general local_p": lambda: luong("general", "local_p", reach=3),
    "general local_m": lambda: luong("general", "local_m", reach=4),  # the least that reaches the anti-diagonal
    "general hard": lambda: luong("general", "hard", expected=0.5),
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_it_learns_to_say_it_backwards_and_looks_along_the_antidiagonal(learner: str) -> None:
    torch.manual_seed(0)
    model = LEARNERS[learner]()
    draw = torch.Generator().manual_seed(99)
    unseen = [some(length, draw) for length in LENGTHS]
    assert share_said(model, unseen) < 0.1
    train(model, steps=170)
    assert share_said(model, unseen) >= 0.99
    assert share_looked(model, unseen) >= 0.95
