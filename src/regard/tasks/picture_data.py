"""What tasks over labelled pictures share: where the pictures are, and how bright."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.images import LabelledImage, labelled_images
from regard.data.named import data_folder, named_images
from regard.errors import UsageError
from regard.tasks.data_section import own_part


@dataclass(frozen=True)
class LabelledPictures:
    """Part of a `data` section: a named data set, or folders of one's own with a folder per label."""

    name: str | None = None  # fashion_mnist, omniglot
    options: dict[str, Any] = field(default_factory=dict)  # of the named data set
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    mean: tuple[float, ...] = (0.5,)  # of the pixels, from 0 to 1; one number, or one per channel
    std: tuple[float, ...] = (0.5,)

    def images(self, split: str, folder: str | Path | None) -> Iterable[LabelledImage]:
        """The labelled pictures of a split."""
        own = own_part(self, split, "a folder")
        if self.name is not None:
            return named_images(self.name, data_folder(folder), split, **self.options)
        return labelled_images(own)

    def brightness(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation of every channel."""
        mean, std = (row * channels if len(row) == 1 else row for row in (self.mean, self.std))
        if len(mean) != channels or len(std) != channels:
            raise UsageError(f"data.mean and data.std must have one number, or {channels}: the channels of the model")
        return mean, std
