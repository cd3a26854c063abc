"""Running text from files and by name."""

import gzip
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data import running_text
from regard.data.running_text import named_text, text_lines
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

    def fetch(url: str) -> Iterator[bytes]:
        yield archive.getvalue()

    monkeypatch.setattr(running_text, "fetch", fetch)
    with pytest.raises(RegardError, match="yourself"):  # not the archive we know
        named_text("wikitext2", tmp_path, "test")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(running_text, "WIKITEXT2_SHA256", None)
    assert list(text_lines([named_text("wikitext2", tmp_path, "test")])) == [" test "]


@pytest.mark.real_data
@pytest.mark.parametrize(("split", "words"), [("train", 2_088_628), ("valid", 217_646), ("test", 245_569)])
def test_wikitext2_has_as_many_words_as_its_makers_say(split: str, words: int, real_data: Path) -> None:
    if not (real_data / "wikitext2").is_dir():
        pytest.skip("REGARD_DATA holds no wikitext2")
    assert count_words(text_lines([named_text("wikitext2", real_data, split)])) == words
