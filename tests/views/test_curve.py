"""The length curve: right heights and bands, counts below the axis, models that grey print tells apart."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from PIL import Image

from regard.errors import UsageError
from regard.tasks.metrics import LengthBucket
from regard.views.curve import length_curve

LABELS = ["1-10", "11-20", "21-30", "61+"]


def buckets(first: float, labels: list[str] = LABELS, count: int = 40) -> list[LengthBucket]:
    return [
        LengthBucket(label, count + place, first - place, (first - place - 2, first - place + 1))
        for place, label in enumerate(labels)
    ]


def ticks(axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_each_line_stands_at_its_bleu_within_its_interval() -> None:
    axes = length_curve({"rnn": buckets(20), "attention": buckets(30)}).axes[0]
    for line, band, first in zip(axes.lines, axes.collections[::2], (20, 30), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), range(4))
        np.testing.assert_array_equal(line.get_ydata(), [first - place for place in range(4)])
        outline = band.get_paths()[0].vertices
        for place in range(4):
            edges = outline[outline[:, 0] == place][:, 1]
            assert (edges.min(), edges.max()) == (first - place - 2, first - place + 1)
    assert axes.get_ylim()[0] == 0


def test_counts_stand_below_the_lengths() -> None:
    assert ticks(length_curve({"a": buckets(20), "b": buckets(30)}).axes[0]) == [
        "1-10\n40",
        "11-20\n41",
        "21-30\n42",
        "61+\n43",
    ]
    different = length_curve({"a": buckets(20), "b": buckets(30, count=7)}).axes[0]
    assert ticks(different)[0] == "1-10\n40 / 7"


def test_lengths_that_only_some_models_have_keep_their_place() -> None:
    curves = {"short": buckets(20, ["1-10", "11-20"]), "long": buckets(20, ["61+", "11-20"])}
    axes = length_curve(curves).axes[0]
    assert ticks(axes) == ["1-10\n40 / 0", "11-20\n41", "61+\n0 / 40"]
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 1], [1, 2]]
    assert list(axes.lines[1].get_ydata()) == [19, 20]


def test_models_differ_by_marker_stroke_and_lightness() -> None:
    lines = length_curve({name: buckets(20) for name in "abcde"}).axes[0].lines
    assert len({line.get_marker() for line in lines}) == 5
    assert len({str(line._unscaled_dash_pattern) for line in lines}) == 5
    grey = [np.dot(to_rgba(line.get_color())[:3], (0.299, 0.587, 0.114)) for line in lines]
    assert all(later - earlier > 0.08 for earlier, later in pairwise(grey))
    assert max(grey) < 0.8  # on white paper


@pytest.mark.parametrize("count", [1, 2, 9])
def test_every_model_is_in_the_legend_under_its_own_name(count: int) -> None:
    names = ["_hidden", "$x_1$", "Müller", "房子", "a", "b", "c", "d", "e"][:count]
    figure = length_curve({name: buckets(20) for name in names})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_written_even_of_one_point_or_of_zeros(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new" / f"curve.{suffix}"
    length_curve({"one $": [LengthBucket("1-10", 3, 0.0, (0.0, 0.0))]}, path)
    if suffix == "svg":
        text = path.read_text("utf-8")
        assert "one $" in text
        assert "1-10" in text
        before = path.read_bytes()
        length_curve({"one $": [LengthBucket("1-10", 3, 0.0, (0.0, 0.0))]}, path)
        assert path.read_bytes() == before
    else:
        with Image.open(path) as image:
            assert image.format == "PNG"


def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("'curve.gif'")):
        length_curve({"a": buckets(20)}, tmp_path / "curve.gif")
    with pytest.raises(UsageError, match="'empty' has no bucket"):
        length_curve({"a": buckets(20), "empty": []}, tmp_path / "curve.svg")
    with pytest.raises(UsageError, match="at least one model"):
        length_curve({}, tmp_path / "curve.svg")
    assert not list(tmp_path.iterdir())
