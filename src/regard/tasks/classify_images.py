"""Image classification as it is learnt: labelled pictures, their loss, their validation.

A model says `reads = "images"`, has `grid(height, width)`, and, called with normalised pixels [batch, channels, height,
width], gives logits [batch, labels].
"""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard import settings
from regard.data.augment import Augmentation
from regard.data.images import Preprocessing
from regard.tasks.choosing import choice_loss, choice_metrics
from regard.tasks.picture_data import LabelledPictures
from regard.tasks.picture_task import Batch, PictureTask
from regard.training.loop import Loss

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


class ImageClassification(PictureTask):
    """The task the training loop sees (regard.training.loop.Task)."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return choice_loss(model(batch.images), batch.wanted, self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        seen = (
            (self.preprocessing.normalise(pixels.to(self.device)), labels.to(self.device))
            for pixels, labels in self.held_out(max(1, TOKENS_AT_ONCE // self.tokens))
        )
        return choice_metrics((model(images), labels) for images, labels in seen)


def token_count(model: nn.Module, preprocessing: Preprocessing) -> int:
    """The tokens of one picture: its patches, and one that speaks for all."""
    rows, columns = model.grid(*preprocessing.shape)  # type: ignore[operator]
    return int(rows * columns + 1)
