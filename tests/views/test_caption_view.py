"""Captions over pictures: light where the words looked, one region where they looked hard, every form saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import RegardError, UsageError
from regard.views.caption import CaptionMap, caption_figure, lit, smooth
from regard.views.look import Look, save_page


def a_map(**changes: Any) -> CaptionMap:
    draw = np.random.default_rng(0)
    known = dict(
        image=draw.integers(1, 256, (24, 32, 3), dtype=np.uint8),
        words=("a", "<dog>", "runs"),
        weights=draw.random((3, 2, 4)),
        score=-0.5,
        name="a&b.jpg",
    )
    return CaptionMap(**{**known, **changes})  # type: ignore[arg-type]


def test_smoothing_keeps_what_is_even_and_lights_where_the_weight_is() -> None:
    np.testing.assert_allclose(smooth(np.full((2, 4), 0.3), 24, 32), 0.3)
    weights = np.zeros((2, 4))
    weights[1, 2] = 1.0
    light = smooth(weights, 24, 32)
    row, column = np.unravel_index(light.argmax(), light.shape)
    assert 12 <= row < 24
    assert 16 <= column < 24  # the third of four regions
    assert light[18, 20] > light[18, 12] > light[2, 2]
    steps = np.abs(np.diff(light, axis=1)).max()
    assert 0 < steps < 0.2  # no edges


def test_soft_light_is_relative_to_the_brightest_place_and_hard_light_is_one_region() -> None:
    weights = np.zeros((3, 2, 4))
    weights[:, 1, 3] = 1.0
    soft, hard = (lit(a_map(weights=weights, hard=hard), 0) for hard in (False, True))
    image = a_map().image
    assert (soft <= image).all()
    brightest = np.unravel_index(smooth(weights[0], 24, 32).argmax(), (24, 32))
    assert (soft[brightest] == image[brightest]).all()
    np.testing.assert_array_equal(hard[12:, 24:], image[12:, 24:])
    np.testing.assert_array_equal(hard[:12], np.round(image[:12] * 0.25))
    assert a_map(weights=weights).strongest(2) == (1, 3)
    assert a_map(weights=weights).box(2) == (0.75, 0.5, 1.0, 1.0)


@pytest.mark.parametrize("hard", [False, True])
def test_every_word_has_its_panel(hard: bool) -> None:
    figure = caption_figure(a_map(hard=hard))
    assert [axes.get_title() for axes in figure.axes] == ["score -0.50", "a", "<dog>", "runs"]
    assert caption_figure(a_map(score=None)).axes[0].get_title() == "the picture"
    np.testing.assert_array_equal(figure.axes[2].images[0].get_array(), lit(a_map(hard=hard), 1))
    assert len(figure.axes[3].patches) == hard
    long = a_map(words=tuple("abcdefghijk"), weights=np.ones((11, 1, 1)))
    assert len(caption_figure(long).axes) == 12


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.html"])
def test_every_form_is_saved(tmp_path: Path, name: str) -> None:
    if name.endswith("html"):
        save_page("two <pictures>", [Look("", a_map()), Look("", a_map(hard=True))], tmp_path / name)
        text = (tmp_path / name).read_text("utf-8")
        assert text.count("<figure>") == 2
        assert "a &lt;dog&gt; runs" in text
        assert "a&amp;b.jpg" in text
        assert "http" not in text
    else:
        caption_figure(a_map(), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"words": ("a",)},
        {"words": (), "weights": np.zeros((0, 2, 2))},
        {"weights": np.full((3, 2, 2), np.nan)},
        {"weights": -np.ones((3, 2, 2))},
        {"image": np.zeros((4, 4), np.uint8)},
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RegardError):
        a_map(**changes)


def test_a_figure_is_svg_or_png() -> None:
    with pytest.raises(UsageError):
        caption_figure(a_map(), "a.jpg")
