"""Image classification as it is learnt: labelled pictures, their loss, their validation.

A model says `reads = "images"`, has `grid(height, width)`, and, called with normalised pixels [batch, channels, height,
width], gives logits [batch, labels]. Pictures are kept as bytes; moving, mirroring, erasing and normalising happen
batch by batch, on the device that learns.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import settings
from regard.data.augment import Augmentation, augment
from regard.data.batching import Place, TokenBatches
from regard.data.images import ImageSet, LabelledImage, Preprocessing, labelled_images
from regard.data.named import data_folder, named_images
from regard.data.parts import Divisible
from regard.errors import UsageError
from regard.training.loop import Loss
from regard.training.settings import Training

TOKENS_AT_ONCE = 1 << 15  # per batch when nothing is learnt; changes speed, never results
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class ImageData:
    """The `data` section of an image recipe: a named data set, or folders of one's own with a folder per label."""

    name: str | None = None  # fashion_mnist
    options: dict[str, Any] = field(default_factory=dict)  # of the named data set
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    crop: bool = False  # keep the proportions and cut out the middle; else a picture is squeezed into the square
    mean: tuple[float, ...] = (0.5,)  # of the pixels, from 0 to 1; one number, or one per channel
    std: tuple[float, ...] = (0.5,)
    augment: dict[str, Any] = field(default_factory=dict)  # shift, flip, erase: while training only

    def images(self, split: str, folder: str | Path | None) -> Iterable[LabelledImage]:
        """The labelled pictures of a split."""
        if split not in SPLITS:
            raise UsageError(f"there is no split called {split!r}: choose train, valid or test")
        own = getattr(self, split)
        if self.name is not None:
            if own:
                raise UsageError(f"the data section names both the data set {self.name!r} and a folder for {split}")
            return named_images(self.name, data_folder(folder), split, **self.options)
        if not own:
            raise UsageError(f"the data section has no folder for the {split} split: give data.{split} or data.name")
        return labelled_images(own)

    def augmentation(self) -> Augmentation:
        return settings.build(Augmentation, self.augment, "data.augment")

    def preprocessing(self, image_size: int, channels: int) -> Preprocessing:
        square = (image_size, image_size)
        mean, std = (row * channels if len(row) == 1 else row for row in (self.mean, self.std))
        if len(mean) != channels or len(std) != channels:
            raise UsageError(f"data.mean and data.std must have one number, or {channels}: the channels of the model")
        return Preprocessing(image_size if self.crop else square, mean, std, square if self.crop else None)


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
        shown = ", ".join(str(item + 1) for item in batch.items[:8])
        more = f" and {len(batch.items) - 8} more" if len(batch.items) > 8 else ""
        return f"the training pictures {shown}{more}"


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
