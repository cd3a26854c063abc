"""Any picture becomes black on white, in a square."""

import numpy as np
import pytest

from regard.data.drawings import DrawingPreprocessing, on_paper
from regard.errors import RegardError

SMALL = DrawingPreprocessing((8, 8), (1.0,), (1.0,))


def cross(paper: int, ink: int, side: int = 24) -> np.ndarray:
    image = np.full((side, side), paper, np.uint8)
    image[side // 3 : 2 * side // 3, 2:-2] = ink
    return image


@pytest.mark.parametrize(("paper", "ink"), [(255, 0), (200, 90), (0, 255), (60, 130)])
def test_ink_is_black_and_paper_white_whatever_they_were(paper: int, ink: int) -> None:
    pixels = SMALL.pixels(cross(paper, ink))
    assert pixels.shape == (1, 8, 8)
    assert pixels[0, 0, 0] == 255
    assert pixels[0, 4, 4] == 0
    assert np.abs(pixels.astype(int) - SMALL.pixels(cross(255, 0))).max() <= 3


def test_a_wide_picture_keeps_its_proportions_on_its_own_paper() -> None:
    wide = np.full((10, 30), 240, np.uint8)
    wide[4:6, 5:25] = 10
    square = on_paper(wide)
    assert square.shape == (30, 30)
    assert (square[:10] == 240).all()
    assert (square[10:20] == wide).all()


def test_a_picture_of_one_colour_is_blank() -> None:
    assert (SMALL.pixels(np.full((9, 9), 77, np.uint8)) == 255).all()
    assert (SMALL.pixels(np.zeros((1, 1), np.uint8)) == 255).all()


def test_white_is_zero_for_the_model() -> None:
    import torch

    inputs = SMALL.normalise(torch.from_numpy(SMALL.pixels(cross(255, 0)).copy())[None])
    assert float(inputs.max()) == 0.0
    assert float(inputs.min()) == -1.0


def test_what_is_no_picture_is_named(tmp_path: "object") -> None:
    with pytest.raises(RegardError, match="no picture"):
        SMALL.pixels(np.zeros((3, 3), np.float32))
