import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.links import Links, read_links, to_pharaoh, write_links
from regard.errors import RegardError, UsageError

some_links = st.frozensets(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=30)


def test_sure_and_possible_links_are_told_apart_and_possible_includes_sure(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1p2 \n\n2-1\n")
    assert read_links(path) == [
        Links(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0), (1, 2)})),
        Links(sure=frozenset(), possible=frozenset()),
        Links(sure=frozenset({(2, 1)}), possible=frozenset({(2, 1)})),
    ]


def test_one_based_files_start_at_zero_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1 2p3")
    assert read_links(path, one_based=True) == [Links(frozenset({(0, 0)}), frozenset({(1, 2)}))]


def test_links_are_written_in_reading_order() -> None:
    links = Links(frozenset({(10, 0), (2, 5)}), frozenset({(2, 1)}))
    assert to_pharaoh(links) == "2p1 2-5 10-0"
    assert to_pharaoh(links, one_based=True) == "3p2 3-6 11-1"


@given(st.lists(st.builds(Links, some_links, some_links)), st.booleans())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, corpus: list[Links], one_based: bool
) -> None:
    path = tmp_path_factory.mktemp("links") / "gold"
    write_links(path, corpus, one_based=one_based)
    assert read_links(path, one_based=one_based) == corpus


@pytest.mark.parametrize("link", ["1", "1-", "-1-2", "1x2", "1-2-3", "1_0-2", "١-٢", "1.0-2"])
def test_what_is_not_a_link_is_named_with_its_line(tmp_path: Path, link: str) -> None:
    path = tmp_path / "gold"
    path.write_text(f"0-0\n1-1 {link}\n", encoding="utf-8")
    with pytest.raises(RegardError) as error:
        read_links(path)
    assert f"gold, line 2: {link!r} is not a link" in str(error.value)


def test_a_zero_in_a_one_based_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1\n1-0\n")
    with pytest.raises(RegardError, match="line 2: '1-0' counts from 0"):
        read_links(path, one_based=True)


def test_a_missing_file_of_links_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_links(tmp_path / "absent")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "languages", "count"),
    [("deen", "de en", 508), ("enfr", "en fr", 447), ("roen", "ro en", 248), ("enes.dev", "en es", 200)],
)
def test_published_gold_links_point_at_words_of_their_sentences(name: str, languages: str, count: int) -> None:
    folder = Path(os.environ.get("REGARD_DATA", "")) / "word_alignments"
    if not (folder / f"{name}.gold").is_file():
        pytest.skip("REGARD_DATA does not hold word_alignments")
    corpus = read_links(folder / f"{name}.gold", one_based=True)
    sources, targets = (
        [line.split() for line in (folder / f"{name}.{language}").read_text("utf-8").split("\n")[:-1]]
        for language in languages.split()
    )
    assert len(corpus) == len(sources) == len(targets) == count
    for links, source, target in zip(corpus, sources, targets, strict=True):
        assert all(i < len(source) and j < len(target) for i, j in links.possible)
