"""Image classification as it is learnt: labelled pictures, their loss, their validation.

A model says `reads = "images"`, has `grid(height, width)`, and, called with normalised pixels [batch, channels, height,
width], gives logits [batch, labels]. Pictures are kept as bytes; moving, mirroring, erasing and normalising happen
batch by batch, on the device that learns.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import settings
from regard.data.augment import Augmentation, augment
from regard.data.batching import Place, TokenBatches
from regard.data.images import ImageSet, Preprocessing
from regard.data.parts import Divisible
from regard.errors import listed
from regard.tasks.picture_data import LabelledPictures
from regard.training.loop import Loss
from regard.training.settings import Training

TOKENS_AT_ONCE = 1 << 15  # per batch when nothing is learnt; changes speed, never results


@dataclass(frozen=True)
class ImageData(LabelledPictures):
    """The `data` section of an image recipe."""

    crop: bool = False  # keep the proportions and cut out the middle; else a picture is squeezed into the square
    augment: dict[str, Any] = field(default_factory=dict)  # shift, flip, erase: while training only

    def augmentation(self) -> Augmentation:
        return settings.build(Augmentation, self.augment, "data.augment")

    def preprocessing(self, image_size: int, channels: int) -> Preprocessing:
        square = (image_size, image_size)
        return Preprocessing(
            image_size if self.crop else square, *self.brightness(channels), square if self.crop else None
        )


@dataclass(frozen=True)
class Batch(Divisible):
    """Normalised pixels, and the numbers of the right labels."""

    images: Tensor
    labels: Tensor
    items: tuple[int, ...]


class ImageClassification:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        train: ImageSet,
        valid: ImageSet,
        tokens: int,
        training: Training,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        files: dict[str, str],
        device: torch.device,
    ):
        self.train, self.valid, self.tokens, self.training = train, valid, tokens, training
        self.preprocessing, self.augmentation = preprocessing, augmentation
        self.checkpoint_files, self.device = files, device

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """As many pictures at once as their patches fit into `training.batch_tokens`."""
        seed = self.training.seed
        plan = TokenBatches(np.full(len(self.train), self.tokens), self.training.batch_tokens, seed)
        for items, after in plan.follow(place):
            pixels, labels = self.train.batch(items)
            pixels = augment(pixels.to(self.device), self.augmentation, (seed, place.epoch, place.batch))
            images = self.preprocessing.normalise(pixels)
            yield Batch(images, labels.to(self.device), tuple(items.tolist())), after
            place = after

    def count(self, batch: Batch) -> int:
        return len(batch.labels)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        logits = model(batch.images)
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.training.label_smoothing)
        nll = F.cross_entropy(logits.detach(), batch.labels, reduction="sum")
        return Loss(total, nll, len(batch.labels))

    def validate(self, model: nn.Module) -> dict[str, float]:
        nll, right = 0.0, 0
        at_once = max(1, TOKENS_AT_ONCE // self.tokens)
        for first in range(0, len(self.valid), at_once):
            pixels, labels = self.valid.batch(slice(first, first + at_once))
            labels = labels.to(self.device)
            logits = model(self.preprocessing.normalise(pixels.to(self.device)))
            nll += F.cross_entropy(logits, labels, reduction="sum").item()
            right += int((logits.argmax(-1) == labels).sum())
        return {"nll": nll / len(self.valid), "accuracy": right / len(self.valid)}

    def files(self) -> dict[str, str]:
        return self.checkpoint_files

    def lines(self, batch: Batch) -> str:
        return f"the training pictures {listed([item + 1 for item in batch.items], 8)}"


def token_count(model: nn.Module, preprocessing: Preprocessing) -> int:
    """The tokens of one picture: its patches, and one that speaks for all."""
    rows, columns = model.grid(*preprocessing.shape)  # type: ignore[operator]
    return int(rows * columns + 1)


def model_files(config_json: str, labels: Sequence[str], preprocessing: Preprocessing) -> dict[str, str]:
    """What must lie beside the weights for a classifier to be loaded from them."""
    return {
        "config.json": config_json,
        "labels.json": json.dumps({"labels": list(labels)}, indent=1, ensure_ascii=False),
        "preprocessor_config.json": preprocessing.to_json(),
    }
