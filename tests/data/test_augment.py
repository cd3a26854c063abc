"""Pictures are moved, mirrored and erased as asked, the same each time the same place is drawn."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.augment import Augmentation, augment
from regard.errors import UsageError


@pytest.fixture
def pixels() -> Tensor:
    return torch.randint(1, 256, (16, 3, 7, 9), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def shifted(image: Tensor, down: int, right: int) -> Tensor:
    """Pixel by pixel; what comes in is black."""
    result = torch.zeros_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            if 0 <= row + down < height and 0 <= column + right < width:
                result[:, row, column] = image[:, row + down, column + right]
    return result


def test_nothing_asked_changes_nothing(pixels: Tensor) -> None:
    assert torch.equal(augment(pixels, Augmentation(), (0, 0, 0)), pixels)


@pytest.mark.parametrize("flip", [False, True])
def test_every_picture_is_some_shift_of_itself_or_its_mirror_image(pixels: Tensor, flip: bool) -> None:
    moved = augment(pixels, Augmentation(shift=1, flip=flip), (0, 1, 2))
    seen = set()
    for before, after in zip(pixels, moved, strict=True):
        ways = [
            (down, right, mirrored)
            for down, right, mirrored in product((-1, 0, 1), (-1, 0, 1), (False, True))
            if torch.equal(shifted(before.flip(2) if mirrored else before, down, right), after)
        ]
        assert len(ways) == 1
        seen.add(ways[0])
    assert len(seen) > 5
    assert any(mirrored for *_, mirrored in seen) == flip


def test_about_every_other_picture_is_mirrored() -> None:
    pixels = torch.arange(4, dtype=torch.uint8).repeat(1000, 1, 1, 1)
    mirrored = augment(pixels, Augmentation(flip=True), (0, 0, 0))[:, 0, 0, 0] == 3
    assert 430 < int(mirrored.sum()) < 570


def test_what_is_erased_is_one_rectangle_in_the_asked_share_of_pictures() -> None:
    pixels = torch.zeros(400, 1, 20, 20, dtype=torch.uint8)
    changed = (augment(pixels, Augmentation(erase=0.5), (3, 0, 0)) != 0)[:, 0]
    touched = changed.flatten(1).any(1)
    assert 150 < int(touched.sum()) < 250
    for picture in changed[touched].numpy():
        rows, columns = np.flatnonzero(picture.any(1)), np.flatnonzero(picture.any(0))
        inside = picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert inside.mean() > 0.9  # noise is zero once in 256 times
        assert inside.size <= 0.45 * 400
    assert changed.any(0).all()  # every place is erased sometimes


def test_one_place_gives_one_result_and_another_another(pixels: Tensor) -> None:
    settings = Augmentation(shift=2, flip=True, erase=0.5)
    first = augment(pixels, settings, (0, 1, 2))
    assert torch.equal(augment(pixels, settings, (0, 1, 2)), first)
    for place in [(1, 1, 2), (0, 2, 2), (0, 1, 3)]:
        assert not torch.equal(augment(pixels, settings, place), first)


def test_the_draw_is_no_business_of_the_models_generator(pixels: Tensor) -> None:
    state = torch.get_rng_state()
    augment(pixels, Augmentation(shift=2, flip=True, erase=0.5), (0, 0, 0))
    assert torch.equal(torch.get_rng_state(), state)


def test_one_pixel_pictures_survive_everything() -> None:
    pixels = torch.ones(3, 1, 1, 1, dtype=torch.uint8)
    assert augment(pixels, Augmentation(2, True, 1.0), (0, 0, 0)).shape == pixels.shape


@pytest.mark.parametrize("values", [{"shift": -1}, {"erase": 1.5}])
def test_impossible_changes_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=f"data.augment.{next(iter(values))} is"):
        Augmentation(**values)  # type: ignore[arg-type]
