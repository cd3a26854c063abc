"""The picture of a memory at work."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import RegardError, UsageError
from regard.views.look import Look
from regard.views.memory import MemoryTrace, attended_cells, memory_figure


def trace(steps: int = 5, readers: int = 1, writers: int = 1, cells: int = 9) -> MemoryTrace:
    draw = np.random.default_rng(0)

    def weights(heads: int) -> np.ndarray:
        return np.eye(cells, dtype=np.float32)[(np.arange(steps)[:, None] + np.arange(heads)) % cells]

    asked = np.arange(steps) >= steps // 2
    targets = draw.integers(0, 2, (steps, 3)).astype(np.float32)
    return MemoryTrace(
        inputs=targets[:, :2],
        targets=targets,
        asked=asked,
        outputs=np.abs(targets - 0.1),
        reads=draw.normal(size=(steps, readers, 4)).astype(np.float32),
        adds=np.zeros((steps, writers, 4), np.float32),
        read_weights=weights(readers),
        write_weights=weights(writers),
        memory=np.zeros((steps, cells, 4), np.float32),
    )


def test_only_attended_cells_are_shown_around_the_ring() -> None:
    weights = np.zeros((2, 1, 10), np.float32)
    weights[0, 0, [9, 0]] = 0.5
    weights[1, 0, [1, 4]] = 0.5
    assert attended_cells(weights).tolist() == [9, 0, 1, 4]
    assert attended_cells(np.full((1, 1, 40), 1 / 40, np.float32)).tolist() == list(range(40))


def test_a_cell_that_is_attended_alone_is_shown_alone() -> None:
    weights = np.zeros((1, 1, 6), np.float32)
    weights[0, 0, 3] = 1
    assert attended_cells(weights).tolist() == [3]


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 2, 3), (120, 1, 1)])
def test_a_png_is_written_at_any_length(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    memory_figure(trace(*shape), tmp_path / "memory.png", title="copy")
    with Image.open(tmp_path / "memory.png") as image:
        assert image.format == "PNG"
        assert image.width > 300


def test_an_svg_names_its_panels_and_its_faults(tmp_path: Path) -> None:
    memory_figure(trace(), tmp_path / "memory.svg", title="copy:2 & <b>")
    text = (tmp_path / "memory.svg").read_text("utf-8")
    for name in ("inputs", "outputs", "adds", "reads", "write weights", "read weights"):
        assert name in text
    assert "copy:2 &amp; &lt;b&gt;: 0 of 9 answered bits are wrong" in text


def test_the_panels_hold_the_trace() -> None:
    known = trace(steps=4, cells=9)
    images = [axes.images[0].get_array() for axes in memory_figure(known).axes]
    inputs, outputs, adds, reads, write, read = images
    np.testing.assert_array_equal(inputs.T, known.inputs)
    np.testing.assert_array_equal(outputs.mask.T[:, 0], ~known.asked)
    np.testing.assert_array_equal(reads.T, known.reads[:, 0])
    assert not adds.any()
    np.testing.assert_array_equal(write.T, np.eye(4))  # of nine cells only the four that were used
    np.testing.assert_array_equal(read.T, np.eye(4))


def test_another_suffix_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"saved as .png or .svg"):
        memory_figure(trace(), tmp_path / "memory.html")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_whose_parts_differ_in_length_is_refused() -> None:
    known = vars(trace())
    with pytest.raises(RegardError, match="as many steps"):
        MemoryTrace(**{**known, "reads": known["reads"][:-1]})
    with pytest.raises(RegardError, match="at least one"):
        MemoryTrace(**{name: value[:0] for name, value in known.items()})


def test_the_text_shows_bits_places_and_faults() -> None:
    known = trace(steps=4)
    wrong = MemoryTrace(
        **{**vars(known), "outputs": np.where(np.arange(4)[:, None] == 3, 1 - known.outputs, known.outputs)}
    )
    assert wrong.wrong_bits == 3
    seen = Look("copy", wrong)
    lines = [seen.said, "", *seen.terminal().splitlines()]
    assert lines[0] == "3 of 6 answered bits are wrong"
    assert len(lines) == 3 + 4
    assert lines[-1].endswith("wrong")
    assert not lines[-2].endswith("wrong")
    assert lines[-2].split()[-2:] == ["2", "2"]
