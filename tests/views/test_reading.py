"""The picture of a reader at work."""

from pathlib import Path

import numpy as np
import pytest

from regard.errors import UsageError
from regard.views.maps import AttentionMap
from regard.views.reading import reading_figure


def reader(count: int = 3) -> AttentionMap:
    weights = np.tril(np.ones((count, count + 1), dtype=np.float32))
    return AttentionMap(
        name="intra-attention, layer 1",
        kind="decoder",
        layer=1,
        weights=(weights / weights.sum(1, keepdims=True))[None],
        queries=tuple("abcdefgh"[:count]),
        keys=("</s>", *"abcdefgh"[:count]),
        query_words=tuple(range(1, count + 1)),
        key_words=tuple(range(count + 1)),
        causal=True,
        visible=tuple(range(1, count + 1)),
    )


def test_each_line_shows_the_text_so_far_with_its_own_word_in_bold() -> None:
    (axes,) = reading_figure(reader()).axes
    title, *texts = axes.texts
    assert title.get_text() == "intra-attention, layer 1"
    lines: dict[float, list[str]] = {}
    for text in texts:
        lines.setdefault(text.get_position()[1], []).append(text.get_text())
    assert list(lines.values()) == [["</s>", "a"], ["</s>", "a", "b"], ["</s>", "a", "b", "c"]]
    assert [text.get_text() for text in texts if text.get_fontweight() == "bold"] == ["a", "b", "c"]


def test_a_larger_weight_is_darker() -> None:
    known = reader(3)
    known.weights[0, 2] = [0.1, 0.7, 0.2, 0.0]
    (axes,) = reading_figure(known).axes
    last = list(axes.texts)[-4:]
    shades = [sum(text.get_bbox_patch().get_facecolor()[:3]) for text in last]
    assert shades[1] < shades[2] < shades[0] < shades[3] == 3.0


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_it_is_saved_by_its_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"map.{suffix}"
    reading_figure(reader(1), path)
    assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="png or"):
        reading_figure(reader(), tmp_path / "map.pdf")
