"""The LSTMN: tokens in, logits after every token; and its classifier: tokens in, logits of labels."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models import lstmn, lstmn_classifier

PAD, VOCABULARY, LABELS = 0, 11, 3


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(rows: list[Tensor], padding: Padding) -> Tensor:
    width = max(len(row) for row in rows) + padding.extra
    fills = [(width - len(row), 0) if padding.side == "left" else (0, width - len(row)) for row in rows]
    return torch.stack([F.pad(row, fill, value=PAD) for row, fill in zip(rows, fills, strict=True)])


def examples(seed: int) -> list[Tensor]:
    return [tokens(1, length, seed + 10 * length)[0] for length in (6, 1, 3, 5)]


def said_after_tokens(model: nn.Module, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    batch = padded(texts, padding)
    return [row[told != PAD] for row, told in zip(model(batch), batch, strict=True)]


def said_of_texts(model: nn.Module, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    return list(model(padded(texts, padding)))


def under(model: nn.Module, mask: Tensor) -> Tensor:
    outputs: Tensor = model(tokens(*mask.shape).masked_fill(~mask, PAD))
    return outputs


SMALL: dict[str, Any] = dict(vocabulary=VOCABULARY, size=8, dropout=0.1, pad=PAD)
SPEAKERS = {
    "one layer": dict(embedding_size=8, span=32),
    "two layers, a short span, narrow embeddings": dict(embedding_size=6, layers=2, span=2),
    "plain LSTM": dict(embedding_size=8, intra_attention=False),
}
SUBJECTS = [
    *(
        Subject("lstmn", kind, lstmn.Config(**SMALL, **sizes), "language-model", examples, said_after_tokens, under)
        for kind, sizes in SPEAKERS.items()
    ),
    *(
        Subject(
            "lstmn-classifier",
            kind,
            lstmn_classifier.Config(**SMALL, **sizes, labels=LABELS),
            "classify",
            examples,
            said_of_texts,
            under,
        )
        for kind, sizes in SPEAKERS.items()
    ),
]
