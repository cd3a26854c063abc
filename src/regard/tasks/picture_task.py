"""Learning from pictures kept as bytes, which are moved, mirrored, erased and normalised batch by batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.data.augment import Augmentation, augment
from regard.data.batching import Place, TokenBatches
from regard.data.images import Preprocessing
from regard.data.parts import Divisible
from regard.errors import listed
from regard.training.settings import Training


class Pictures(Protocol):
    def __len__(self) -> int: ...

    def batch(self, items: Any) -> tuple[Tensor, Tensor]:
        """Bytes [pictures, channels, height, width], and what is wanted of each."""


@dataclass(frozen=True)
class Batch(Divisible):
    """Normalised pixels, and what is wanted of each picture."""

    images: Tensor
    wanted: Tensor
    items: tuple[int, ...]


class PictureTask:
    """Part of a task (regard.training.loop.Task): all but the loss and the validation."""

    def __init__(
        self,
        train: Pictures,
        valid: Pictures,
        tokens: int,
        training: Training,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        device: torch.device,
    ):
        self.train, self.valid, self.tokens, self.training = train, valid, tokens, training
        self.preprocessing, self.augmentation, self.device = preprocessing, augmentation, device

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """As many pictures at once as their tokens fit into `training.batch_tokens`."""
        seed = self.training.seed
        plan = TokenBatches(np.full(len(self.train), self.tokens), self.training.batch_tokens, seed)
        for items, after in plan.follow(place):
            pixels, wanted = self.train.batch(items)
            pixels = augment(pixels.to(self.device), self.augmentation, (seed, place.epoch, place.batch))
            images = self.preprocessing.normalise(pixels)
            yield Batch(images, wanted.to(self.device), tuple(items.tolist())), after
            place = after

    def held_out(self, at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Bytes and wishes of all validation pictures."""
        return (self.valid.batch(slice(first, first + at_once)) for first in range(0, len(self.valid), at_once))

    def count(self, batch: Batch) -> int:
        return len(batch.wanted)

    def lines(self, batch: Batch) -> str:
        return f"the training pictures {listed([item + 1 for item in batch.items], 8)}"
