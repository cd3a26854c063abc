"""Hierarchical attention under the contract: an example is a document, a list of sentences of tokens."""

from typing import Any

import torch
from torch import Tensor, nn

from contract.subject import Padding, Subject
from regard.models.han import Config

SIZES: dict[str, Any] = dict(vocabulary=11, labels=3, embedding_size=6, size=4, context_size=5)


def examples(seed: int) -> list[Any]:
    """Documents of different shapes, one of them a single word."""
    draw = torch.Generator().manual_seed(seed)
    shapes = [[3, 1, 4], [1], [2, 5], [4, 2, 2, 1], [6]]
    return [[torch.randint(1, 11, (words,), generator=draw) for words in shape] for shape in shapes]


def batch(documents: list[Any], padding: Padding) -> Tensor:
    """Padding words and padding sentences on the side asked for."""
    sentences = max(map(len, documents)) + padding.extra
    words = max(len(row) for document in documents for row in document) + padding.extra
    table = torch.zeros(len(documents), sentences, words, dtype=torch.long)
    for number, document in enumerate(documents):
        for place, row in enumerate(document):
            if padding.side == "left":
                table[number, sentences - len(document) + place, words - len(row) :] = row
            else:
                table[number, place, : len(row)] = row
    return table


def outputs(model: nn.Module, documents: list[Any], padding: Padding) -> list[Tensor]:
    return list(model(batch(documents, padding)))


def under(model: nn.Module, mask: Tensor) -> Tensor:
    """The rows of the mask as sentences of one document, and each as a document of its own."""
    tokens = torch.randint(1, 11, mask.shape, generator=torch.Generator().manual_seed(0)).masked_fill(~mask, 0)
    return torch.cat([model(tokens[None]), model(tokens[:, None])])


def subject(kind: str, **changes: Any) -> Subject:
    return Subject("han", kind, Config(**SIZES, **changes), "classify", examples, outputs, under)


SUBJECTS = [subject("attention", dropout=0.1), subject("average", pooling="average"), subject("max", pooling="max")]
