"""Any picture of a sign as it would stand on paper: black on white, in a square.

    grey          and turned as the camera says
    light ground  if the edge of the picture is dark, dark and light are exchanged
    square        the shorter side is filled up with the colour of the edge; the sign stays in the middle
    small         28 x 28 pixels, or whatever the model reads, each the mean of what it covers
    contrast      then the darkest pixel becomes black and the lightest white; a picture of one colour is blank

Nothing is cut away: the sign should fill most of the picture.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.data.images import Picture, Pixels, Preprocessing, read_image

FAINTEST = 16  # levels of grey between ink and paper that are no difference


@dataclass(frozen=True)
class DrawingPreprocessing(Preprocessing):
    """As any picture is read, but as a drawing on paper. Grey pictures only."""

    def pixels(self, picture: Picture) -> Pixels:
        return stretched(super().pixels(Image.fromarray(on_paper(picture))))


def on_paper(picture: Picture) -> NDArray[np.uint8]:
    """A grey square [side, side] with a light ground."""
    grey = np.asarray(read_image(picture, 1))
    edge = int(np.median(np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])))
    if edge < 128:
        grey, edge = 255 - grey, 255 - edge
    height, width = grey.shape
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    return np.pad(grey, ((top, side - height - top), (left, side - width - left)), constant_values=edge)


def stretched(pixels: Pixels) -> Pixels:
    darkest, lightest = int(pixels.min()), int(pixels.max())
    if lightest - darkest < FAINTEST:
        return np.full_like(pixels, 255)
    return ((pixels.astype(np.float32) - darkest) * (255 / (lightest - darkest))).round().astype(np.uint8)
