"""A small residual network that reads a picture as a grid of regions (after He et al. 2016).

    block    y = ReLU(N(W_2 ReLU(N(W_1 x))) + S x)      S: the identity, or a 1 x 1 convolution where the shape changes

The first convolution and the pooling halve a picture twice, every stage but the first once more: three stages make 16 x
16 pixels one region, so 128 pixels give a grid of 8 x 8. N normalises groups of channels within one picture (Wu and He
2018), never across a batch: what a picture looks like does not depend on its company, in training as little as later.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UsageError

Maps = Float[Tensor, "batch channels height width"]
Smaller = Float[Tensor, "batch size rows columns"]
GROUPS = 8


def norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(GROUPS if channels % GROUPS == 0 else 1, channels)


class ResidualBlock(nn.Module):
    """Two convolutions of 3 x 3 beside a shortcut."""

    def __init__(self, channels: int, size: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(channels, size, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(size, size, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = norm(size), norm(size)
        fits = channels == size and stride == 1
        self.shortcut = nn.Identity() if fits else nn.Conv2d(channels, size, 1, stride, bias=False)

    def forward(self, maps: Maps) -> Smaller:
        inner = torch.relu(self.first_norm(self.first(maps)))
        return torch.relu(self.second_norm(self.second(inner)) + self.shortcut(maps))


class ImageCNN(nn.Module):
    """Images [batch, channels, height, width] to maps [batch, sizes[-1], height / 16, width / 16]."""

    def __init__(self, channels: int = 3, sizes: Sequence[int] = (64, 128, 256), blocks: int = 1):
        super().__init__()
        if not sizes or min(sizes) < 2 or blocks < 1:
            raise UsageError(
                f"a network of stages {list(sizes)} with {blocks} blocks each cannot be: all must be positive"
            )
        self.size, self.stride = sizes[-1], 4 * 2 ** (len(sizes) - 1)
        before = sizes[0] // 2
        self.stem = nn.Sequential(
            nn.Conv2d(channels, before, 3, stride=2, padding=1, bias=False), norm(before), nn.ReLU(), nn.MaxPool2d(2)
        )
        stages: list[nn.Module] = []
        for number, size in enumerate(sizes):
            for block in range(blocks):
                stages.append(ResidualBlock(before, size, 2 if number and not block else 1))
                before = size
        self.stages = nn.Sequential(*stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, images: Maps) -> Smaller:
        return self.stages(self.stem(images))
