"""The encoder-decoders: sources and targets of tokens, logits after every target token."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models import bahdanau, encoder_decoder, luong, transformer

PAD, VOCABULARY = 0, 11


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    """Random tokens without padding."""
    return torch.randint(1, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(rows: list[Tensor], padding: Padding) -> Tensor:
    """Rows of different lengths as one batch."""
    width = max(len(row) for row in rows) + padding.extra
    fills = [(width - len(row), 0) if padding.side == "left" else (0, width - len(row)) for row in rows]
    return torch.stack([F.pad(row, fill, value=PAD) for row, fill in zip(rows, fills, strict=True)])


def examples(seed: int) -> list[tuple[Tensor, Tensor]]:
    lengths = [(5, 2), (1, 4), (3, 1), (4, 5)]
    return [
        (tokens(1, source, seed + 10 * row)[0], tokens(1, target, seed + 10 * row + 1)[0])
        for row, (source, target) in enumerate(lengths)
    ]


def outputs(model: nn.Module, pairs: list[tuple[Tensor, Tensor]], padding: Padding) -> list[Tensor]:
    source = padded([source for source, _ in pairs], padding)
    target = padded([target for _, target in pairs], padding)
    logits = model(source, target)
    return [row[told != PAD] for row, told in zip(logits, target, strict=True)]


def under(model: nn.Module, mask: Tensor) -> Tensor:
    """The mask for the sources, turned upside down for the targets."""
    source = tokens(*mask.shape).masked_fill(~mask, PAD)
    logits: Tensor = model(source, tokens(*mask.shape, seed=1).masked_fill(~mask.flip(0), PAD))
    return logits


def subject(family: str, kind: str, config: Any) -> Subject:
    return Subject(family, kind, config, "translate", examples, outputs, under)


SMALL: dict[str, Any] = dict(vocabulary=VOCABULARY, pad=PAD)
TRANSFORMER: dict[str, Any] = SMALL | dict(size=8, hidden_size=12, heads=2, encoder_layers=2, decoder_layers=2)
RECURRENT: dict[str, Any] = SMALL | dict(embedding_size=6, size=8, dropout=0.1)


def luongs() -> list[Subject]:
    """Every score and every alignment at least once, with and without feeding, both cells, one to three layers."""
    options: list[dict[str, Any]] = [
        dict(score="dot", align="soft", feeding=False, cell="gru", layers=1, bidirectional=True),
        dict(score="general", align="soft", feeding=True, layers=2, reverse=True),
        dict(score="scaled_dot", align="local_m", reach=1, feeding=True, cell="gru", layers=1),
        dict(score="additive", align="local_p", reach=2, feeding=False, layers=1, reverse=True),
        dict(score="cosine", align="local_p", reach=2, feeding=True, layers=1, cell="gru"),
        dict(score="location", align="soft", feeding=False, layers=3, max_source=9),
        dict(score="general", align="hard", expected=0.5, feeding=True, cell="gru", layers=1),
    ]
    return [
        subject("luong", f"{chosen['score']} {chosen['align']}", luong.Config(**RECURRENT, **chosen))
        for chosen in options
    ]


SUBJECTS = [
    subject("transformer", "post-norm", transformer.Config(**TRANSFORMER, dropout=0.1)),
    subject(
        "transformer",
        "pre-norm, learned positions",
        transformer.Config(**TRANSFORMER, dropout=0.1, pre_norm=True, positions="learned", max_length=16),
    ),
    subject(
        "rnn",
        "GRU, both directions",
        encoder_decoder.Config(**RECURRENT, readout_size=6, bidirectional=True, tied=True),
    ),
    subject(
        "rnn",
        "LSTM, two layers, reversed",
        encoder_decoder.Config(
            **RECURRENT, readout_size=7, layers=2, cell="lstm", reverse=True, context_everywhere=False
        ),
    ),
    subject("bahdanau", "paper", bahdanau.Config(**RECURRENT, alignment_size=5, readout_size=7)),
    subject("bahdanau", "tied", bahdanau.Config(**RECURRENT, alignment_size=8, readout_size=6, tied=True)),
    *luongs(),
]
