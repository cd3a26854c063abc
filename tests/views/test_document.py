"""The document view: shades at both levels, as a page, a picture and terminal lines."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from regard.errors import RegardError, UsageError
from regard.views.document import (
    DocumentMap,
    document_figure,
    document_page_text,
    document_terminal,
)
from regard.views.look import Look, save_page

TEXT = "It was <b>fine</b>.  Very fine & bold!"


def spans(text: str, *words: str) -> tuple[tuple[int, int], ...]:
    found, start = [], 0
    for word in words:
        start = text.index(word, start)
        found.append((start, start + len(word)))
        start += len(word)
    return tuple(found)


@pytest.fixture
def document() -> DocumentMap:
    words = spans(TEXT, "It", "was", "<", "b", ">", "fine", "<", "/", "b", ">", ".", "Very", "fine", "&", "bold", "!")
    return DocumentMap(
        text=TEXT,
        sentences=(words[:11], words[11:]),
        sentence_weights=np.array([0.2, 0.8]),
        word_weights=(np.array([0.1] * 5 + [0.0] + [0.1] * 5), np.array([0.1, 0.6, 0.0, 0.2, 0.1])),
        label="good <one>",
        probability=0.93,
    )


class Read(HTMLParser):
    """What a reader sees of a page: the sentences' text, and the shade of every shaded word."""

    def __init__(self) -> None:
        super().__init__()
        self.sentences: list[str] = []
        self.shaded: dict[str, float] = {}
        self.margins: list[float] = []
        self.where: str | None = None
        self.shade: float | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        style = dict(attributes).get("style") or ""
        if tag == "li":
            self.margins.append(float(style.removeprefix("--s:")))
        if tag == "p" and self.margins:
            self.where = "p"
            self.sentences.append("")
        if tag == "span":
            self.shade = float(style.removeprefix("--w:"))

    def handle_endtag(self, tag: str) -> None:
        self.where = None if tag == "p" else self.where
        self.shade = None if tag == "span" else self.shade

    def handle_data(self, data: str) -> None:
        if self.where == "p":
            self.sentences[-1] += data
            if self.shade is not None:
                self.shaded[data] = self.shade


def test_a_words_shade_is_its_weight_times_the_root_of_its_sentences(document: DocumentMap) -> None:
    top = np.sqrt(0.8) * 0.6
    first, second = document.word_shades()
    assert first[0] == pytest.approx(np.sqrt(0.2) * 0.1 / top)
    assert second.tolist() == pytest.approx([1 / 6, 1.0, 0.0, 1 / 3, 1 / 6])
    assert document.sentence_shades().tolist() == pytest.approx([0.25, 1.0])


def test_the_page_shows_the_text_as_it_was_written_and_shades_it(document: DocumentMap, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    save_page("A <title>", [Look("", document)], path)
    page = path.read_text("utf-8")
    reader = Read()
    reader.feed(page)
    assert reader.sentences == ["It was <b>fine</b>.", "Very fine & bold!"]
    assert reader.margins == [0.25, 1.0]
    assert reader.shaded["fine"] == 1.0
    assert reader.shaded["bold"] == pytest.approx(0.33)
    assert "&" not in reader.shaded
    assert "<title>A &lt;title&gt;</title>" in page
    assert "good &lt;one&gt;" in page


def test_the_page_fetches_nothing_and_knows_both_themes(document: DocumentMap) -> None:
    page = document_page_text("title", [document, document])
    assert not re.search(r"https?://|src=|@import|url\(", page)
    assert "default-src 'none'" in page
    assert 'data-theme="dark"' in page
    assert page.count("<article>") == 2


def test_a_text_that_spells_a_placeholder_stays_text(document: DocumentMap) -> None:
    page = document_page_text("{{documents}}", [document])
    assert page.count("<article>") == 1


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_picture_is_written_whole(document: DocumentMap, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture{suffix}"
    figure = document_figure(document, path)
    assert path.stat().st_size > 1000
    if suffix == ".svg":
        written = path.read_text("utf-8")
        assert "bold" in written
        assert "good &lt;one&gt; (93.0%)" in written
    shades = [patch.get_facecolor()[3] for patch in figure.axes[0].patches]
    assert max(shades) == pytest.approx(1.0)  # the margin of the second sentence
    assert pytest.approx(0.6) in shades  # its strongest word


def test_the_picture_of_a_long_document_shows_the_weightiest_sentences() -> None:
    text = "word " * 500
    places = [((5 * n, 5 * n + 4),) for n in range(500)]
    weights = np.arange(500) / np.arange(500).sum()
    long = DocumentMap(text, tuple(places), weights, tuple(np.ones(1) for _ in places), "x", 0.5)
    figure = document_figure(long)
    told = [drawn.get_text() for drawn in figure.axes[0].texts]
    assert "the 60 weightiest of 500 sentences" in told[0]
    assert told.count("word") == 60
    assert "495 sentences of less weight" in document_terminal(long)


def test_the_terminal_brackets_the_strongest_words_or_colours_them(document: DocumentMap) -> None:
    plain = document_terminal(document)
    assert plain.splitlines()[0].startswith("0.200 ")
    assert "Very [fine] & [bold]!" in plain
    coloured = document_terminal(document, colour=True)
    assert "\x1b[48;2;" in coloured
    assert re.sub(r"\x1b\[[^m]*m", "", coloured).splitlines()[1].endswith("Very fine & bold!")
    assert "less weight" in document_terminal(document, most=1)


def test_no_character_of_a_text_moves_the_cursor() -> None:
    text = "a\x1b[2Jb\u202ec"
    told = document_terminal(DocumentMap(text, (((0, len(text)),),), np.ones(1), (np.ones(1),), "x", 1.0))
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_what_does_not_fit_is_refused(document: DocumentMap, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="at least one sentence"):
        DocumentMap("", (), np.zeros(0), (), "x", 1.0)
    with pytest.raises(RegardError, match="1 sentence weights"):
        DocumentMap("a b", (((0, 1),), ((2, 3),)), np.ones(1), (np.ones(1), np.ones(1)), "x", 1.0)
    with pytest.raises(UsageError, match="at least one look"):
        save_page("t", [], tmp_path / "a.html")
    with pytest.raises(UsageError, match=r"\.pdf"):
        document_figure(document, tmp_path / "a.pdf")
