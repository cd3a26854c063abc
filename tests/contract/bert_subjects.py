"""BERT and its heads: tokens in; words, a verdict on the next sentence, a label, tags or a vector out."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models.bert import Config

VOCABULARY, SEPARATOR = 13, 3


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    """With a [SEP] (3) here and there."""
    return torch.randint(1, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def examples(seed: int) -> list[Tensor]:
    return [tokens(1, length, seed + 10 * length)[0] for length in (8, 1, 4, 6)]


def padded(rows: list[Tensor], padding: Padding, pad: int) -> Tensor:
    width = max(len(row) for row in rows) + padding.extra
    fills = [(width - len(row), 0) if padding.side == "left" else (0, width - len(row)) for row in rows]
    return torch.stack([F.pad(row, fill, value=pad) for row, fill in zip(rows, fills, strict=True)])


def said_in_pretraining(model: Any, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    batch = padded(texts, padding, model.config.pad)
    states, mask = model.encoder(batch)
    verdicts = model.next_logits(states, mask) if model.config.next_sentence else states.new_zeros(len(texts), 0)
    rows = zip(model.logits(states), batch, verdicts, strict=True)
    return [torch.cat([row[told != model.config.pad].flatten(), verdict]) for row, told, verdict in rows]


def said_of_texts(model: Any, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    return list(model(padded(texts, padding, model.config.pad)))


def said_of_tokens(model: Any, texts: list[Tensor], padding: Padding) -> list[Tensor]:
    batch = padded(texts, padding, model.config.pad)
    return [row[told != model.config.pad] for row, told in zip(model(batch), batch, strict=True)]


def under(model: nn.Module, mask: Tensor) -> Tensor:
    pad: int = model.config.pad  # type: ignore[assignment,union-attr]
    outputs: Tensor = model(tokens(*mask.shape).masked_fill(~mask, pad))
    return outputs


def subject(family: str, kind: str, task: str, outputs: Any, **changes: Any) -> Subject:
    sizes: dict[str, Any] = dict(vocabulary=VOCABULARY, size=8, hidden_size=12, heads=2, layers=2, max_length=16)
    config = Config(**{**sizes, "separator": SEPARATOR, **changes})
    return Subject(family, kind, config, task, examples, outputs, under)


SUBJECTS = [
    subject("bert", "words and next sentences", "mask-fill", said_in_pretraining),
    subject("bert", "words alone, no token for padding", "mask-fill", said_in_pretraining, next_sentence=False, pad=-1),
    subject("bert-classifier", "three labels", "classify", said_of_texts, labels=3),
    subject("bert-tagger", "five tags", "tag", said_of_tokens, labels=5, activation="relu"),
    subject("bert-embedder", "mean", "mask-fill", said_of_texts),
    subject("bert-embedder", "first token", "mask-fill", said_of_texts, pooling="cls", layers=1),
]
