"""The picture of a match, read back."""

from pathlib import Path

import numpy as np
import pytest

from regard.errors import RegardError, UsageError
from regard.views.look import Look, save_page
from regard.views.match import MOST_SHOWN, MatchMap, match_figure, match_terminal


def match(examples: int = 3, name: str = "q.png", label: str = "b") -> MatchMap:
    draw = np.random.default_rng(0)
    weights = draw.dirichlet(np.ones(examples + 1), 2)
    images = list(draw.integers(0, 256, (examples, 6, 6), dtype=np.uint8))
    labels = ["ab"[number % 2] for number in range(examples)]
    query = draw.integers(0, 256, (6, 6), dtype=np.uint8)
    return MatchMap(query, images, labels, weights, label, 0.875, name, [f"{n}.png" for n in range(examples)])


def test_the_figure_shows_every_example_the_query_and_their_weights() -> None:
    known = match()
    figure = match_figure(known)
    assert len(figure.axes) == 4
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "a", "itself"]
    said = [text.get_text() for text in figure.texts]
    assert said[0] == "q.png: b (87.5 %)"
    for weight in known.weights.ravel():
        assert f"{100 * weight:.0f} %" in said
    assert said[-2:] == ["attention 1", "attention 2"]


def test_of_many_examples_those_that_were_paid_most_are_shown() -> None:
    known = match(40)
    shown = known.shown()
    assert len(shown) == MOST_SHOWN
    paid = known.weights[:, :-1].sum(0)
    assert paid[shown].min() >= np.delete(paid, shown).max()
    assert len(match_figure(known).axes) == MOST_SHOWN + 1


def test_the_page_needs_nothing_but_itself_and_escapes_names(tmp_path: Path) -> None:
    save_page("a <b>", [Look("", match(name="<i>.png")), Look("", match())], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert text.count("<figure>") == 2
    assert "&lt;i&gt;.png: b (87.5 %)" in text
    assert "<i>" not in text
    assert "http" not in text


@pytest.mark.parametrize("name", ["match.svg", "match.png"])
def test_pictures_are_saved(tmp_path: Path, name: str) -> None:
    match_figure(match(), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(UsageError, match=r"saved as .png or .svg"):
        match_figure(match(), tmp_path / "match.pdf")


def test_the_terminal_names_the_examples_in_order_of_their_weight() -> None:
    lines = match_terminal(match()).splitlines()
    assert [float(line.split()[0]) for line in lines] == sorted(
        (float(line.split()[0]) for line in lines), reverse=True
    )
    assert {line.split()[1] for line in lines} == {"0.png", "1.png", "2.png"}


def test_what_does_not_fit_is_refused() -> None:
    known = match()
    with pytest.raises(RegardError, match="do not fit 3 examples"):
        MatchMap(known.query, known.examples, known.labels, known.weights[:, :-1], "a", 1.0)
    with pytest.raises(RegardError, match="finite and not negative"):
        MatchMap(known.query, known.examples, known.labels, -known.weights, "a", 1.0)
