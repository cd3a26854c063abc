"""GPT-2: tokens in, logits after every token, also of texts longer than the window."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models.gpt2 import Config

VOCABULARY = 11


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(rows: list[Tensor], padding: Padding, pad: int) -> Tensor:
    width = max(len(row) for row in rows) + padding.extra
    fills = [(width - len(row), 0) if padding.side == "left" else (0, width - len(row)) for row in rows]
    return torch.stack([F.pad(row, fill, value=pad) for row, fill in zip(rows, fills, strict=True)])


def examples(seed: int) -> list[Tensor]:
    return [tokens(1, length, seed + 10 * length)[0] for length in (6, 1, 3, 5)]


def outputs(model: nn.Module, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    pad: int = model.config.pad  # type: ignore[union-attr,assignment]
    batch = padded(texts, padding, pad)
    return [row[told != pad] for row, told in zip(model(batch), batch, strict=True)]


def under(model: nn.Module, mask: Tensor) -> Tensor:
    pad: int = model.config.pad  # type: ignore[union-attr,assignment]
    logits: Tensor = model(tokens(*mask.shape).masked_fill(~mask, pad))
    return logits


def subject(kind: str, **changes: Any) -> Subject:
    sizes = dict(vocabulary=VOCABULARY, size=8, hidden_size=12, heads=2, layers=2, dropout=0.1, context=8)
    return Subject("gpt2", kind, Config(**sizes | changes), "language-model", examples, outputs, under)


SUBJECTS = [
    subject("no token for padding"),
    subject("a token for padding, one head", pad=0, heads=1),
    subject("a window shorter than the text", context=4),
    subject("an odd window", context=3, layers=1),
    subject("an output matrix of its own", tied=False, layers=1),
]
