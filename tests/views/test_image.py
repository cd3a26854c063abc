"""Pictures with attention: every panel drawn, every form saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import RegardError, UsageError
from regard.views.image import ImageMap, image_figure, image_terminal
from regard.views.look import Look, save_page


def a_map(colours: int = 1, **changes: Any) -> ImageMap:
    draw = np.random.default_rng(0)
    known = dict(
        image=draw.integers(0, 256, (9, 12, 3) if colours == 3 else (9, 12), dtype=np.uint8),
        weights=draw.random((2, 3, 2, 3)),
        rollout=draw.random((2, 3)),
        patch_size=4,
        layers=(1, 4),
        heads=(1, 2, 3),
        label="dress",
        probability=0.875,
        name="a<b.png",
    )
    return ImageMap(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("colours", [1, 3])
def test_every_head_of_every_layer_has_its_panel(colours: int) -> None:
    figure = image_figure(a_map(colours))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:2] == ["what it read", "rollout of all layers"]
    assert titles[2:] == [f"layer {layer}, head {head}" for layer in (1, 4) for head in (1, 2, 3)]
    overlay = figure.axes[-1].images[-1]
    np.testing.assert_array_equal(overlay.get_array(), a_map(colours).weights[1, 2])
    assert overlay.get_extent() == [-0.5, 11.5, 7.5, -0.5]  # the last row of pixels belongs to no patch


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
def test_figures_are_saved_by_their_suffix(tmp_path: Path, name: str) -> None:
    image_figure(a_map(), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    if name.endswith("svg"):
        assert b"layer 4, head 3" in content
        assert b"dress (87.5 %)" in content


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        image_figure(a_map(), tmp_path / "a.pdf")


def test_a_page_holds_all_pictures_and_needs_nothing_else(tmp_path: Path) -> None:
    save_page("two <pictures>", [Look("", a_map()), Look("", a_map(3))], tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    assert text.count("data:image/png;base64,") == 2
    assert "two &lt;pictures&gt;" in text
    assert "a&lt;b.png: dress" in text
    assert "http" not in text
    assert "<script" not in text


def test_a_terminal_shows_the_strongest_patch_full() -> None:
    seen = a_map(rollout=np.array([[0.0, 0.1], [0.2, 0.4]]), weights=np.ones((2, 3, 2, 2)))
    assert image_terminal(seen) == "  ░░\n▒▒██"
    assert image_terminal(seen, colour=True).count("\x1b[48;2;") == 4


def test_no_attention_at_all_can_be_drawn(tmp_path: Path) -> None:
    nothing = a_map(rollout=np.zeros((2, 3)), weights=np.zeros((2, 3, 2, 3)))
    image_figure(nothing, tmp_path / "a.png")
    assert set(image_terminal(nothing)) == {" ", "\n"}


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": np.ones((2, 2, 2, 3))},
        {"rollout": np.ones((3, 3))},
        {"rollout": np.full((2, 3), np.nan)},
        {"weights": -np.ones((2, 3, 2, 3))},
        {"image": np.zeros((9, 12))},
        {"layers": ()},
    ],
)
def test_maps_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RegardError, match=r"the attention over a<b\.png"):
        a_map(**changes)
