"""One table is enough: what is validated and tested on is taken out of it, and never learnt from."""

from pathlib import Path

import pytest

from regard.data.held_out import held_out
from regard.errors import UsageError
from regard.tasks.classify import ClassificationData
from regard.tasks.translate import TranslationData

SPLITS = ("train", "valid", "test")


def test_every_row_is_in_one_split_and_one_in_twenty_is_held_out_for_each() -> None:
    found = {split: list(held_out(range(2000), split)) for split in SPLITS}
    assert sorted(row for rows in found.values() for row in rows) == list(range(2000))
    assert {split: len(rows) for split, rows in found.items()} == {"train": 1800, "valid": 100, "test": 100}


def test_the_place_of_a_row_decides_and_more_rows_move_none() -> None:
    for split in SPLITS:
        assert list(held_out(range(500), split)) == [row for row in held_out(range(2000), split) if row < 500]


def test_too_few_rows_are_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"19 rows are too few .* give data\.valid"):
        list(held_out(range(19), "valid"))
    assert [len(list(held_out(range(20), split))) for split in SPLITS] == [18, 1, 1]


def test_pairs_and_labelled_texts_need_one_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a {number}\tb {number}\n" for number in range(40)))
    pairs = TranslationData(train=(str(tmp_path / "pairs.tsv"),))
    assert [pair.source for pair in pairs.pairs("valid", None)] == ["a 19", "a 39"]
    assert [pair.source for pair in pairs.pairs("test", None)] == ["a 9", "a 29"]
    assert len(list(pairs.pairs("train", None))) == 36

    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "".join(f"a {number}\tx\n" for number in range(40)))
    texts = ClassificationData(train=(str(tmp_path / "texts.tsv"),))
    assert [text.text for text in texts.texts("valid", None)] == ["a 19", "a 39"]
    assert len(list(texts.texts("train", None))) == 36


def test_where_a_split_is_given_nothing_is_taken_out(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"a {number}\tb {number}\n" for number in range(40)))
    path = (str(tmp_path / "pairs.tsv"),)
    data = TranslationData(train=path, valid=path)
    assert len(list(data.pairs("train", None))) == 40
    with pytest.raises(UsageError, match="no files for the test split"):
        data.pairs("test", None)
