"""Marian: the Transformer whose targets begin with the padding token, with sines before cosines and a bias."""

from typing import Any

import torch
from torch import Tensor, nn

from contract.subject import Padding, Subject
from contract.translator_subjects import PAD, VOCABULARY, padded, tokens, under
from regard.models.transformer import Config

START = torch.tensor([PAD])


def examples(seed: int) -> list[tuple[Tensor, Tensor]]:
    """The third target is nothing but the start."""
    lengths = [(5, 2), (1, 4), (3, 0), (4, 5)]
    return [
        (tokens(1, source, seed + 10 * row)[0], torch.cat([START, tokens(1, target, seed + 10 * row + 1)[0]]))
        for row, (source, target) in enumerate(lengths)
    ]


def outputs(model: nn.Module, pairs: list[tuple[Tensor, Tensor]], padding: Padding) -> list[Tensor]:
    target = padded([target for _, target in pairs], padding)
    logits = model(padded([source for source, _ in pairs], padding), target)
    said = [len(target) for _, target in pairs]
    return [row[-n:] if padding.side == "left" else row[:n] for row, n in zip(logits, said, strict=True)]


def subject(kind: str, **changes: Any) -> Subject:
    values: dict[str, Any] = dict(
        vocabulary=VOCABULARY,
        size=8,
        hidden_size=12,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.1,
        pad=PAD,
        positions="sinusoidal_halves",
        output_bias=True,
        starts_with_pad=True,
        activation="silu",
    )
    return Subject("transformer", kind, Config(**values | changes), "translate", examples, outputs, under)


SUBJECTS = [
    subject("Marian"),
    subject("Marian, pre-norm, embeddings not scaled", pre_norm=True, scaled=False, activation="gelu"),
]
