"""Shards: what a folder, a pattern or an address stands for, in an order that depends on names alone."""

import gzip
import json
from collections import Counter
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.data.places import shards
from regard.data.running_text import text_lines
from regard.errors import UsageError
from regard.tasks.classify import ClassificationData
from regard.tasks.language_model import TextData
from regard.tasks.translate import TranslationData

PAIRS = [(f"one {number}", f"eins {number}") for number in range(7)]


def rows(first: int, last: int) -> list[dict[str, str]]:
    return [{"source": source, "target": target, "text": source, "label": "a"} for source, target in PAIRS[first:last]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Seven pairs in three shards, written in another order than that of their names, and things beside them."""
    folder = tmp_path / "corpus"
    (folder / "more").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows(5, 7)), folder / "more" / "c.parquet")
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(3, 5)))
    with gzip.open(folder / "a.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows(0, 3)))
    (folder / "README.md").write_text("what this is")
    (folder / "_SUCCESS").write_text("")
    return folder


def pairs(*entries: str) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in TranslationData(train=entries, valid=entries).pairs("train", None)]


def test_a_folder_is_its_tables_in_the_order_of_their_names(corpus: Path) -> None:
    assert [Path(file).name for file in shards([str(corpus)], (".jsonl", ".jsonl.gz", ".parquet"))] == [
        "a.jsonl.gz",
        "b.jsonl",
        "c.parquet",
    ]
    assert pairs(str(corpus)) == PAIRS


def test_a_pattern_and_a_list_are_the_same_as_the_folder(corpus: Path) -> None:
    assert pairs(f"{corpus}/*.jsonl*", f"{corpus}/**/*.parquet") == PAIRS
    assert pairs(*(str(corpus / name) for name in ("a.jsonl.gz", "b.jsonl", "more/c.parquet"))) == PAIRS


def test_an_address_is_read_like_a_folder(corpus: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(corpus), "/places-test", recursive=True)
    try:
        assert pairs("memory://places-test") == PAIRS
        assert pairs("memory://places-test/*.jsonl*", "memory://places-test/more/c.parquet") == PAIRS
        with pytest.raises(UsageError, match="no file there"):
            pairs("memory://places-test/*.tsv")
    finally:
        memory.rm("/places-test", recursive=True)


def test_an_address_that_nobody_knows_is_told_in_one_line() -> None:
    with pytest.raises(UsageError, match="cannot be listed") as caught:
        pairs("nosuchsystem://corpus/*.jsonl")
    assert "\n" not in str(caught.value)


def test_two_patterns_of_text_go_in_step(tmp_path: Path) -> None:
    for number, part in enumerate((PAIRS[:4], PAIRS[4:])):
        (tmp_path / f"{number}.en").write_text("".join(f"{source}\n" for source, _ in part))
        (tmp_path / f"{number}.de").write_text("".join(f"{target}\n" for _, target in part))
    assert pairs(f"{tmp_path}/*.en", f"{tmp_path}/*.de") == PAIRS
    (tmp_path / "2.en").write_text("more\n")
    with pytest.raises(UsageError, match="names 3 and 2 files"):
        pairs(f"{tmp_path}/*.en", f"{tmp_path}/*.de")


def test_labelled_texts_and_running_text_come_in_shards_too(corpus: Path) -> None:
    labelled = ClassificationData(train=(str(corpus),), valid=(str(corpus),)).texts("train", None, Counter())
    assert [known.text for known in labelled] == [source for source, _ in PAIRS]
    lines = TextData(train=(str(corpus),)).lines("train", None)
    assert [line for line in lines if line] == [source for source, _ in PAIRS]


def test_a_text_of_a_table_may_have_lines_and_ends_with_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "one\r\ntwo\u2028still"}) + "\n")
    assert list(text_lines([tmp_path / "a.jsonl"])) == ["one", "two\u2028still", ""]


def test_a_folder_or_pattern_without_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("nothing")
    with pytest.raises(UsageError, match="no file there that ends with"):
        pairs(str(tmp_path))
    with pytest.raises(UsageError, match="no file there"):
        pairs(f"{tmp_path}/*.tsv")
