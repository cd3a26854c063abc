"""Running text from files and by name."""

import gzip
import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data import download, running_text
from regard.data.running_text import Part, named_text, text_lines
from regard.data.streams import count_words
from regard.errors import RegardError, UsageError


def test_lines_come_as_they_are_file_after_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n two \n")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("three")
    assert list(text_lines([tmp_path / "a.txt", tmp_path / "b.txt.gz"])) == ["one", "", " two ", "three"]


def test_a_line_without_an_end_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n" + "x" * 500_000 + "\ntwo\n")
    skipped: Counter[str] = Counter()
    assert list(text_lines([tmp_path / "a.txt"], skipped)) == ["one", "two"]
    assert skipped == {"too long": 1}


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="wikitext2"):
        named_text("wikitext", tmp_path, "train")


def test_a_missing_data_set_is_fetched_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for split in running_text.SPLITS:
            file.writestr(f"wikitext-2/wiki.{split}.tokens", f" {split} \n")

    def fetch(url: str, *_: object) -> Iterator[bytes]:
        yield archive.getvalue()

    monkeypatch.setattr(download, "fetch", fetch)
    with pytest.raises(RegardError, match="yourself"):  # not the archive we know
        named_text("wikitext2", tmp_path, "test")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.setattr(running_text, "WIKITEXT2_SHA256", hashlib.sha256(archive.getvalue()).hexdigest())
    monkeypatch.setattr(running_text, "WIKITEXT2_TEXT_MOST", 7)
    with pytest.raises(RegardError, match=r"train.tokens swells to 8 bytes"):
        named_text("wikitext2", tmp_path, "test")
    monkeypatch.setattr(running_text, "WIKITEXT2_TEXT_MOST", 8)
    assert list(text_lines([named_text("wikitext2", tmp_path, "test")])) == [" test "]


@pytest.mark.real_data
@pytest.mark.parametrize(("split", "words"), [("train", 2_088_628), ("valid", 217_646), ("test", 245_569)])
def test_wikitext2_has_as_many_words_as_its_makers_say(split: str, words: int, real_data: Path) -> None:
    if not (real_data / "wikitext2").is_dir():
        pytest.skip("REGARD_DATA holds no wikitext2")
    assert count_words(text_lines([named_text("wikitext2", real_data, split)])) == words


@pytest.mark.parametrize("cut", range(12))
def test_the_parts_of_a_file_are_its_characters(cut: int, tmp_path: Path) -> None:
    text = "one\n\n two\nx\n"
    (tmp_path / "a.txt").write_text(text)
    before, after = (
        "".join(f"{line}\n" for line in text_lines([Part(tmp_path / "a.txt", first, last)]))
        for first, last in ((0, cut), (cut, None))
    )
    assert after == text[cut:]
    assert before == text[:cut] + ("" if text[:cut].endswith("\n") or not cut else "\n")  # a cut line still ends


def test_shakespeare_is_fetched_whole_and_has_no_test_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "fetch", lambda url, *_: iter([b"abc\n", b"de\n"]))
    monkeypatch.setattr(running_text, "SHAKESPEARE_CUT", 5)
    with pytest.raises(UsageError, match="no test split"):
        named_text("shakespeare", tmp_path, "test")
    with pytest.raises(RegardError, match="yourself"):  # not the text we know
        named_text("shakespeare", tmp_path, "train")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.setattr(running_text, "SHAKESPEARE_SHA256", hashlib.sha256(b"abc\nde\n").hexdigest())
    assert list(text_lines([named_text("shakespeare", tmp_path, "train")])) == ["abc", "d"]
    assert list(text_lines([named_text("shakespeare", tmp_path, "valid")])) == ["e"]


@pytest.mark.real_data
def test_shakespeare_is_cut_where_everybody_cuts_it(real_data: Path) -> None:
    if not (real_data / "tiny_shakespeare").is_dir():
        pytest.skip("REGARD_DATA holds no tiny_shakespeare")
    train, valid = (list(text_lines([named_text("shakespeare", real_data, split)])) for split in ("train", "valid"))
    assert sum(len(line) + 1 for line in train) - 1 == 1_003_854  # the last line is cut and has no end of its own
    assert sum(len(line) + 1 for line in valid) == 111_540
    assert valid[:3] == ["?", "", "GREMIO:"]
