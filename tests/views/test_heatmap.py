"""Heat maps: the right file, the right colours, every script, and no warning that escapes."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import RegardError, UsageError
from regard.views import AttentionMap, heads_figure, heatmap


def attention(count: int = 6, heads: int = 4, causal: bool = False) -> AttentionMap:
    weights = np.random.default_rng(0).random((heads, count, count)) + 0.01
    if causal:
        weights = np.tril(weights)
    weights /= weights.sum(-1, keepdims=True)
    tokens = tuple(f"▁palabra{i}" for i in range(count))
    numbers = tuple(range(count))
    kind = "decoder" if causal else "encoder"
    return AttentionMap("self-attention, layer 1", kind, 1, weights, tokens, tokens, numbers, numbers, causal)


@pytest.mark.parametrize("count", [1, 5, 80])
def test_a_png_is_written_at_any_length(tmp_path: Path, count: int) -> None:
    heatmap(attention(count), path=tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as image:
        assert image.format == "PNG"
        assert image.width > 300


def test_an_svg_keeps_its_words_as_text(tmp_path: Path) -> None:
    heatmap(attention(), path=tmp_path / "new" / "folder" / "map.svg", title="Mañana & <b>")
    text = (tmp_path / "new" / "folder" / "map.svg").read_text(encoding="utf-8")
    assert "palabra3" in text
    assert "Mañana &amp; &lt;b&gt;" in text


def test_the_same_map_is_the_same_svg(tmp_path: Path) -> None:
    heatmap(attention(), path=tmp_path / "a.svg")
    heatmap(attention(), path=tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_another_suffix_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("'map.gif': '.gif'; a picture is saved as .png or .svg")):
        heatmap(attention(), path=tmp_path / "map.gif")
    with pytest.raises(UsageError, match="no suffix"):
        heads_figure(attention(), tmp_path / "map")
    assert not list(tmp_path.iterdir())


def test_every_script_is_drawn_without_a_warning(tmp_path: Path) -> None:
    # Warnings are errors in this suite, so drawing at all is the claim.
    words = ["niño", "Straße", "дом", "房子", "집", "घर", "بيت", "🏠", "$a_1$", "\x07"]
    for suffix in ("png", "svg"):
        path = tmp_path / f"map.{suffix}"
        heatmap(np.full((10, 10), 0.1), words, words, path, title="房子 $\\frac$")
        assert path.stat().st_size > 0


def test_labels_are_as_many_as_the_tokens_and_stand_on_top() -> None:
    axes = heatmap(attention(80)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"palabra{i}" for i in range(80)]
    assert axes.xaxis.get_tick_params()["labeltop"]
    assert axes.get_xticklabels()[0].get_rotation() == 90


def test_neighbouring_labels_never_touch() -> None:
    for count in (5, 30, 80, 300, 1000):
        figure = heatmap(np.full((count, count), 1 / count), ["word"] * count, ["word"] * count)
        axes = figure.axes[0]
        labels = axes.get_yticklabels()
        step = axes.get_position().height * figure.get_size_inches()[1] * 72 / count
        stride = count / len(labels)
        assert labels[0].get_fontsize() <= step * stride * 1.01
        assert labels[0].get_fontsize() >= 5


def test_the_scale_is_the_square_root_and_the_bar_says_raw_weights() -> None:
    matrix = np.array([[0.0, 0.25], [0.25, 1.0]])
    figure = heatmap(matrix, ["a", "b"], ["c", "d"])
    assert figure.axes[0].images[0].norm(0.25) == pytest.approx(0.5)
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["0", "0.062", "0.25", "0.56", "1"]
    linear = heatmap(matrix, ["a", "b"], ["c", "d"], scale="linear")
    assert linear.axes[0].images[0].norm(0.25) == pytest.approx(0.25)
    with pytest.raises(UsageError, match="unknown scale 'cubic'"):
        heatmap(matrix, ["a", "b"], ["c", "d"], scale="cubic")


def test_masked_cells_are_hatched_and_have_no_colour_of_a_weight() -> None:
    axes = heatmap(attention(5, causal=True)).axes[0]
    drawn = axes.images[0].get_array()
    assert isinstance(drawn, np.ma.MaskedArray)
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), np.triu(np.ones((5, 5), dtype=bool), 1))
    (hatched,) = axes.patches
    assert hatched.get_hatch()
    outline = hatched.get_path()
    for row in range(5):
        for column in range(5):
            assert outline.contains_point((column, row)) == (column > row)
    assert not heatmap(attention(5)).axes[0].patches


def test_a_matrix_without_labels_or_with_too_few_is_refused() -> None:
    with pytest.raises(UsageError, match="needs labels"):
        heatmap(np.ones((2, 2)))
    with pytest.raises(RegardError, match=r"\(2, 2\) but there are 2 queries and 3 keys"):
        heatmap(np.ones((2, 2)), ["a", "b"], ["c", "d", "e"])


@pytest.mark.parametrize("heads", [1, 4, 6, 16])
def test_all_heads_are_drawn_on_one_scale(tmp_path: Path, heads: int) -> None:
    figure = heads_figure(attention(12, heads, causal=True), tmp_path / "heads.png")
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == heads
    assert len({axes.images[0].norm.vmax for axes in maps}) == 1
    assert [text.get_text() for axes in maps for text in axes.texts] == [f"head {i + 1}" for i in range(heads)]
    corners = np.array([axes.get_position().extents for axes in figure.axes])
    assert corners.min() >= 0
    assert corners.max() <= 1
