"""Pictures a little different each time they are seen: moved, mirrored, partly erased.

    moved      by up to `shift` pixels each way; what comes in at the edge is black (He et al. 2016 call it padded crop)
    mirrored   left to right, every other time
    erased     a rectangle of 2 to 33 % of the area becomes noise (random erasing, Zhong et al. 2020)

A whole batch is changed at once. What happens to it depends on (seed, epoch, batch) alone: a resumed run sees the very
same pictures, on any device.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import UsageError

ERASED_AREA = (0.02, 0.33)
ERASED_RATIO = (0.3, 3.3)  # of height to width


@dataclass(frozen=True)
class Augmentation:
    """How much pictures are changed; as it stands, not at all."""

    shift: int = 0  # pixels
    flip: bool = False  # not for letters and digits: a mirrored b is a d
    erase: float = 0.0  # the share of pictures

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise UsageError(f"data.augment.shift is {self.shift} but must not be negative")
        if not 0 <= self.erase <= 1:
            raise UsageError(f"data.augment.erase is {self.erase} but must lie in [0, 1]")


def augment(pixels: Tensor, settings: Augmentation, place: tuple[int, int, int]) -> Tensor:
    """Bytes [batch, channels, height, width], changed as the draw of place = (seed, epoch, batch) says."""
    draw = torch.Generator().manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))
    if settings.shift or settings.flip:
        pixels = _moved(pixels, settings, draw)
    return _erased(pixels, settings.erase, draw) if settings.erase else pixels


def _moved(pixels: Tensor, settings: Augmentation, draw: torch.Generator) -> Tensor:
    """Where each pixel comes from, for all pictures at once; one gather does the rest."""
    count, _, height, width = pixels.shape
    by = torch.randint(0, 2 * settings.shift + 1, (2, count, 1), generator=draw)
    mirrored = torch.rand(count, 1, generator=draw) < 0.5 * settings.flip
    rows = torch.arange(height) + by[0]
    columns = torch.where(mirrored, torch.arange(width).flip(0), torch.arange(width)) + by[1]
    padded = F.pad(pixels, [settings.shift] * 4)
    rows, columns = rows.to(pixels.device), columns.to(pixels.device)
    which = torch.arange(count, device=pixels.device)[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def _erased(pixels: Tensor, share: float, draw: torch.Generator) -> Tensor:
    count, _, height, width = pixels.shape
    chosen, area, ratio, top, left = torch.rand(5, count, generator=draw)
    area = height * width * (ERASED_AREA[0] + area * (ERASED_AREA[1] - ERASED_AREA[0]))
    low, high = map(math.log, ERASED_RATIO)
    ratio = torch.exp(low + ratio * (high - low))
    rows = _between(top, (area * ratio).sqrt(), height) & (chosen < share)[:, None]
    columns = _between(left, (area / ratio).sqrt(), width)
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    noise = torch.randint(0, 256, pixels.shape, generator=draw, dtype=torch.uint8)
    return torch.where(inside.to(pixels.device), noise.to(pixels.device), pixels)


def _between(start: Tensor, length: Tensor, size: int) -> Tensor:
    """[batch, size]: True along `length` places (at most all), which begin somewhere from the first possible place."""
    length = length.round().clamp(1, size)
    first = (start * (size - length + 1)).floor()
    places = torch.arange(size)
    return (places >= first[:, None]) & (places < (first + length)[:, None])
