"""Pairs of token lists as padded tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.parts import Divisible
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import padded


@dataclass(frozen=True)
class Batch(Divisible):
    """Padded token tensors: what is read, what the decoder is told, what it must say."""

    source: Tensor  # [batch, source length], each row ends with </s>
    told: Tensor  # [batch, target length]: <s> y_1 ... y_n
    said: Tensor  # [batch, target length]: y_1 ... y_n </s>
    items: tuple[int, ...] = ()

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.source.to(device), self.told.to(device), self.said.to(device), self.items)


def make_batch(
    sources: Sequence[Any], targets: Sequence[Any], tokenizer: Tokenizer, items: Sequence[int] = ()
) -> Batch:
    """Special tokens and padding around plain token lists."""
    start, end, pad = tokenizer.start, tokenizer.end, tokenizer.pad
    return Batch(
        padded([[*source, end] for source in sources], pad),
        padded([[start, *target] for target in targets], pad),
        padded([[*target, end] for target in targets], pad),
        tuple(items),
    )
