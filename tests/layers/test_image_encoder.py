"""The encoder of pictures: a grid whose regions lie where they say, blocks by hand, company without influence, timm."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equations import shaken
from regard.errors import RegardError, UsageError
from regard.layers.image_cnn import ImageCNN, ResidualBlock
from regard.layers.image_encoder import ImageEncoder


@pytest.mark.parametrize(("size", "stride"), [(8, 1), (16, 2)])
def test_a_block_is_two_convolutions_beside_a_shortcut(size: int, stride: int) -> None:
    torch.manual_seed(0)
    block, x = shaken(ResidualBlock(8, size, stride)), torch.randn(2, 8, 6, 6)

    def normalised(maps: Tensor, norm: nn.GroupNorm) -> Tensor:
        groups = maps.view(len(maps), 8, -1)  # eight groups of channels
        mean, variance = groups.mean(-1, keepdim=True), groups.var(-1, unbiased=False, keepdim=True)
        plain = ((groups - mean) / (variance + norm.eps).sqrt()).view_as(maps)
        return plain * norm.weight[:, None, None] + norm.bias[:, None, None]

    inner = torch.relu(normalised(F.conv2d(x, block.first.weight, stride=stride, padding=1), block.first_norm))
    outer = normalised(F.conv2d(inner, block.second.weight, padding=1), block.second_norm)
    beside = x if stride == 1 else F.conv2d(x, block.shortcut.weight, stride=stride)
    torch.testing.assert_close(block(x), torch.relu(outer + beside), atol=1e-5, rtol=1e-4)


def test_the_small_network_makes_8_x_8_regions_of_128_pixels() -> None:
    with torch.device("meta"):
        encoder = ImageEncoder("small_cnn", 128)
        assert encoder(torch.empty(2, 3, 128, 128)).shape == (2, 64, 256)
    assert (encoder.grid, encoder.size) == ((8, 8), 256)


def test_regions_lie_row_by_row_where_their_pixels_are() -> None:
    encoder = ImageEncoder("tiny_cnn", 64)
    encoder.backbone = nn.AvgPool2d(16)
    image = torch.arange(16.0).view(1, 1, 4, 4).repeat_interleave(16, 2).repeat_interleave(16, 3)
    assert encoder(image)[0, :, 0].tolist() == list(range(16))


def test_what_changes_most_with_a_square_of_pixels_is_the_region_that_holds_it() -> None:
    """Of the network itself, on the mean of several draws of its weights."""
    places, image = ((0, 0), (1, 2), (3, 1)), torch.zeros(1, 3, 64, 64)
    changed = image.repeat(len(places), 1, 1, 1)
    torch.manual_seed(0)
    for picture, (row, column) in zip(changed, places, strict=True):
        picture[:, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = torch.randn(3, 16, 16)
    total = torch.zeros(len(places), 16)
    for _ in range(12):
        encoder = ImageEncoder("tiny_cnn", 64)
        with torch.no_grad():
            difference = (encoder(changed) - encoder(image)).abs().sum(-1)
        total += difference / difference.sum(1, keepdim=True)
    assert total.argmax(1).tolist() == [4 * row + column for row, column in places]


def test_company_changes_nothing_even_while_training() -> None:
    torch.manual_seed(0)
    network, images = ImageCNN(sizes=(8, 8, 8)).train(), torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(network(images)[1:2], network(images[1:2]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("backbone", "size"), [("huge_cnn", 128), ("small_cnn", 100), ("small_cnn", 0)])
def test_what_cannot_be_is_refused(backbone: str, size: int) -> None:
    with pytest.raises(UsageError):
        ImageEncoder(backbone, size)
    with pytest.raises(UsageError):
        ImageCNN(sizes=())


class Fake(nn.Module):
    """As networks of timm look from outside: maps with the channels first or last, or tokens behind a class token."""

    num_features, num_prefix_tokens = 5, 1

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.patches = kind, nn.Conv2d(3, 5, 8, stride=8)

    def forward_features(self, images: Tensor) -> Tensor:
        maps = self.patches(images)
        if self.kind == "first":
            return maps
        if self.kind == "last":
            return maps.permute(0, 2, 3, 1)
        tokens = maps.flatten(2).transpose(1, 2)
        return torch.cat([tokens.new_zeros(len(tokens), 1, 5), tokens], dim=1)


def create_model(name: str, *, pretrained: bool, num_classes: int, global_pool: str = "") -> Fake:
    assert not pretrained  # building a model never downloads
    if name == "unknown":
        raise RuntimeError("Unknown model")
    return Fake(name)


@pytest.mark.parametrize("kind", ["first", "last", "tokens"])
def test_any_network_of_timm_becomes_the_same_grid(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = SimpleNamespace(create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", fake)
    torch.manual_seed(0)
    encoder = ImageEncoder(f"timm:{kind}", 24)
    images = torch.randn(2, 3, 24, 24)
    maps = encoder.backbone.network.patches(images)
    assert (encoder.grid, encoder.size) == ((3, 3), 5)
    torch.testing.assert_close(encoder(images)[:, 5], maps[:, :, 1, 2])
    with pytest.raises(UsageError, match="timm cannot build 'unknown'"):
        ImageEncoder("timm:unknown", 24)


def test_a_timm_that_cannot_start_is_named_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(RegardError, match="timm is installed but cannot be imported: operator torchvision::nms"):
        ImageEncoder("timm:resnet18", 32)


def test_without_timm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[timm\]'"):
        ImageEncoder("timm:resnet18", 24)
