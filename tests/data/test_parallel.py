import gzip
import json
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pairs import Pair
from regard.data.parallel import MAX_LINE_CHARACTERS, read_lines, read_pairs
from regard.errors import RegardError, UsageError

Write = Callable[[str, bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def message(error: pytest.ExceptionInfo[RegardError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


# What is read


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_are_read_in_step(write: Write, ending: str) -> None:
    source = write(f"train.en{ending}", b"a cat\na dog\n")
    target = write(f"train.de{ending}", "eine Katze\nein Hündchen".encode())
    assert list(read_pairs(source, target_path=target)) == [
        Pair("a cat", "eine Katze"),
        Pair("a dog", "ein Hündchen"),
    ]


def test_a_tsv_with_a_header_may_have_other_columns_too(write: Write) -> None:
    path = write("train.tsv", b"id\ttarget\tnote\tsource\n1\teine Katze\t-\ta cat\n2\tein Hund\t-\ta dog\n")
    assert list(read_pairs(path)) == [Pair("a cat", "eine Katze"), Pair("a dog", "ein Hund")]
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("b.tsv", b"source\ttarget\tnote\na\tb\n")))
    assert "b.tsv, line 2: 2 columns instead of 3; write as many as the header has" in message(error)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_tsv_needs_no_header(write: Write, ending: str) -> None:
    path = write(f"train.tsv{ending}", b"a cat\teine Katze\na dog\tein Hund\n")
    assert list(read_pairs(path)) == [Pair("a cat", "eine Katze"), Pair("a dog", "ein Hund")]


def test_a_header_that_names_the_columns_is_not_a_pair_and_gives_their_order(write: Write) -> None:
    path = write("train.tsv", b"de\ten\neine Katze\ta cat\n")
    assert list(read_pairs(path, source_column="en", target_column="de")) == [Pair("a cat", "eine Katze")]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_jsonl_columns_are_chosen_by_name(write: Write, ending: str) -> None:
    rows = [{"id": 1, "en": "a cat", "de": "eine\tKatze"}, {"de": "ein Hund", "en": "a dog"}]
    path = write(f"train.jsonl{ending}", "\n".join(map(json.dumps, rows)).encode())
    pairs = list(read_pairs(path, source_column="en", target_column="de"))
    assert pairs == [Pair("a cat", "eine\tKatze"), Pair("a dog", "ein Hund")]


def test_parquet_is_read_across_batches_and_row_groups(tmp_path: Path) -> None:
    expected = [Pair(f"source {i}", f"target {i}") for i in range(2500)]
    table = pyarrow.table(
        {
            "id": range(2500),
            "de": pyarrow.array([pair.target for pair in expected], pyarrow.large_string()),
            "en": pyarrow.array([pair.source for pair in expected]).dictionary_encode(),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "train.parquet", row_group_size=1100)
    assert list(read_pairs(tmp_path / "train.parquet", source_column="en", target_column="de")) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")), min_size=1))
def test_only_line_feeds_end_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    for end in ("\n", "\r\n"):
        path.write_bytes("".join(line + end for line in lines).encode())
        assert list(read_lines(path)) == [lines[0].removeprefix("\ufeff"), *lines[1:]]


def test_characters_that_python_takes_for_line_ends_stay_in_the_sentence(write: Write) -> None:
    text = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg"
    source, target = write("s", f"{text}\r\nx\n".encode()), write("t", b"1\n2\n")
    assert list(read_pairs(source, target_path=target)) == [Pair(text, "1"), Pair("x", "2")]


def test_a_byte_order_mark_is_dropped_only_at_the_start_of_the_file(write: Write) -> None:
    source, target = write("s", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"), write("t", b"\xef\xbb\xbf1\n2\n")
    assert list(read_pairs(source, target_path=target)) == [Pair("a", "1"), Pair("\ufeffb", "2")]


def test_reading_streams(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"a cat\teine Katze\n" * 1000)
    tracemalloc.start()
    count = sum(1 for _ in read_pairs(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 1_000_000 < path.stat().st_size


# What is left out


def test_pairs_with_an_empty_side_are_counted_and_left_out(write: Write) -> None:
    source, target = write("s", b"a\n\n  \nd\n"), write("t", b"1\n2\n3\n\t\n")
    skipped: Counter[str] = Counter()
    assert list(read_pairs(source, target_path=target, skipped=skipped)) == [Pair("a", "1")]
    assert skipped == {"empty": 3}


def test_empty_cells_nulls_and_blank_lines_of_tables_are_counted_as_empty(write: Write, tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    tsv = write("a.tsv", b"a\t\n\nb\t2\n")
    assert list(read_pairs(tsv, skipped=skipped)) == [Pair("b", "2")]
    jsonl = write("a.jsonl", b'{"source": null, "target": "1"}\n\n{"source": "b", "target": "2"}\n')
    assert list(read_pairs(jsonl, skipped=skipped)) == [Pair("b", "2")]
    assert skipped == {"empty": 4}

    table = pyarrow.table({"source": [None, "b", "c"], "target": ["1", "2", ""]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert list(read_pairs(tmp_path / "a.parquet", skipped=skipped)) == [Pair("b", "2")]
    assert skipped == {"empty": 6}


@pytest.mark.parametrize("letter", ["x", "é", "€", "😀"])
def test_the_longest_line_is_counted_in_characters_and_both_files_stay_in_step(write: Write, letter: str) -> None:
    fits, long = letter * MAX_LINE_CHARACTERS, letter * (MAX_LINE_CHARACTERS + 1)
    source = write("s", f"\ufeff{fits}\r\n{long}\r\nc\r\n".encode())
    target = write("t", f"1\n2\n3\n{long * 5}".encode())
    skipped: Counter[str] = Counter()
    with pytest.raises(RegardError, match=r"3 lines but .* has 4"):
        list(read_pairs(source, target_path=target, skipped=skipped))
    target.write_bytes(b"1\n2\n3")
    skipped.clear()
    assert list(read_pairs(source, target_path=target, skipped=skipped)) == [Pair(fits, "1"), Pair("c", "3")]
    assert skipped == {"too long": 1}


def test_a_line_of_a_hundred_megabytes_takes_no_memory(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    with source.open("wb") as file:  # a hole of zero bytes: it takes no disc either
        file.seek(100_000_000)
        file.write(b"\nb\n")
    target.write_bytes(b"1\n2\n")
    skipped: Counter[str] = Counter()
    tracemalloc.start()
    pairs = list(read_pairs(source, target_path=target, skipped=skipped))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs == [Pair("b", "2")]
    assert skipped == {"too long": 1}
    assert peak < 5_000_000


def test_long_lines_and_cells_of_tables_are_counted(write: Write, tmp_path: Path) -> None:
    long = "x" * (MAX_LINE_CHARACTERS + 1)
    skipped: Counter[str] = Counter()
    assert list(read_pairs(write("a.tsv", f"{long}\t1\nb\t2\n".encode()), skipped=skipped)) == [Pair("b", "2")]
    rows = [{"source": long, "target": "1"}, {"source": "b", "target": "2"}]
    jsonl = write("a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert list(read_pairs(jsonl, skipped=skipped)) == [Pair("b", "2")]
    assert skipped == {"too long": 2}

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert list(read_pairs(tmp_path / "a.parquet", skipped=skipped)) == [Pair("b", "2")]
    assert skipped == {"too long": 3}


# What is refused


def test_a_wrong_request_is_refused_before_anything_is_read(write: Write, tmp_path: Path) -> None:
    there = write("a.tsv", b"a\t1\n")
    with pytest.raises(UsageError) as error:
        read_pairs(tmp_path / "absent.tsv")
    assert "absent.tsv: no such file" in message(error)
    with pytest.raises(UsageError) as error:
        read_pairs(there, target_path=tmp_path / "absent.de")
    assert "absent.de: no such file" in message(error)
    with pytest.raises(UsageError) as error:
        read_pairs(tmp_path)
    assert f"{tmp_path}: is a folder" in message(error)
    with pytest.raises(UsageError) as error:
        read_pairs(there, source_column="x", target_column="x")
    assert "both 'x'" in message(error)


@pytest.mark.parametrize("name", ["train.csv", "train.en", "train", "train.txt.gz", "train.parquet.gz", ".tsv.bak"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(write: Write, name: str) -> None:
    with pytest.raises(UsageError) as error:
        read_pairs(write(name, b"a\t1\n"))
    assert name in message(error)
    for known in (".tsv", ".jsonl", ".gz", ".parquet", "second file"):
        assert known in message(error)


@pytest.mark.parametrize(("source", "target", "counts"), [(5, 3, "s has 5 lines"), (0, 2, "s has 0 lines")])
def test_files_out_of_step_are_refused_with_both_counts(write: Write, source: int, target: int, counts: str) -> None:
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("s", b"a\n" * source), target_path=write("t", b"1\n" * target)))
    assert counts in message(error)
    assert f"t has {target}" in message(error)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_bytes_that_are_not_utf8_are_named_with_line_and_offset(write: Write, name: str) -> None:
    content = "\ufeffcafé\t1\n".encode() + b"b\t2\nc\t\xe9t\xe9\n"
    with pytest.raises(RegardError) as error:
        list(read_pairs(write(name, content)))
    assert f"{name}, line 3: byte 0xe9 at offset {content.index(bytes([0xE9]) + b't')}" in message(error)
    assert "iconv" in message(error)


def test_the_offset_counts_the_bytes_of_skipped_lines_too(write: Write) -> None:
    content = b"x" * 1_000_000 + b"\t1\n\xff\t2\n"
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("a.tsv", content)))
    assert "line 2: byte 0xff at offset 1000003" in message(error)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (b'{"source": "a", ', "not JSON"),
        (b"[" * 50_000, "not usable JSON"),
        (b'{"source": ' + b"9" * 5000 + b', "target": "1"}', "not usable JSON"),
        (b'["a", "1"]', "is not an object"),
        (b'{"source": 3, "target": "1"}', "'source' is 3"),
        (b'{"source": "\\ud800", "target": "1"}', "half of a"),
    ],
)
def test_malformed_json_is_named_with_its_line(write: Write, row: bytes, complaint: str) -> None:
    path = write("a.jsonl", b'{"source": "a", "target": "1"}\n' + row + b"\n")
    with pytest.raises(RegardError) as error:
        list(read_pairs(path))
    assert "a.jsonl, line 2: " in message(error)
    assert complaint in message(error)


def test_a_missing_column_is_refused_with_those_present(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        list(read_pairs(write("a.jsonl", b'{"en": "a", "de": "1"}\n'), source_column="en"))
    assert "a.jsonl, line 1: no column 'target'; the columns are 'en', 'de'" in message(error)
    with pytest.raises(UsageError) as error:
        list(read_pairs(write("a.tsv", b"en\tde\na\t1\n"), source_column="en", target_column="fr"))
    assert "'fr'" in message(error)
    assert "it holds 'en' and 'de'" in message(error)

    pyarrow.parquet.write_table(pyarrow.table({"en": ["a"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError) as error:
        list(read_pairs(tmp_path / "a.parquet", source_column="en"))
    assert "no column 'target'; the columns are 'en', 'n'" in message(error)
    with pytest.raises(UsageError) as error:
        list(read_pairs(tmp_path / "a.parquet", source_column="en", target_column="n"))
    assert "column 'n' holds int64 values" in message(error)


@pytest.mark.parametrize(("row", "count"), [(b"b", "1 column "), (b"b\t2\tx", "3 columns ")])
def test_a_tsv_row_with_other_than_two_columns_is_refused(write: Write, row: bytes, count: str) -> None:
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("a.tsv", b"a\t1\n" + row + b"\n")))
    assert f"a.tsv, line 2: {count}instead of 2" in message(error)


def test_a_gzip_file_cut_short_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    lines = b"".join(b"%d\t%d\n" % (i, i * i) for i in range(100_000))
    whole = gzip.compress(lines, compresslevel=1)
    damaged = bytearray(whole)
    damaged[-8] ^= 0xFF  # in the checksum at the end
    for content in (whole[: len(whole) // 2], bytes(damaged), b"a\t1\n", whole + b"more"):
        path.write_bytes(content)
        with pytest.raises(RegardError) as error:
            list(read_pairs(path))
        assert "a.tsv.gz" in message(error)
        assert "fetch it again" in message(error)


def test_a_damaged_parquet_file_is_refused(write: Write) -> None:
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("a.parquet", b"PAR1 but nothing else")))
    assert "a.parquet: not a readable Parquet file" in message(error)


def test_parquet_without_pyarrow_names_the_extra(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RegardError) as error:
        list(read_pairs(write("a.parquet", b"PAR1")))
    assert "regard[data]" in message(error)


@pytest.mark.parametrize(("name", "content"), [("a.tsv", b""), ("a.jsonl", b"\n\n"), ("a.tsv.gz", b"a\t\n")])
def test_a_corpus_without_a_usable_pair_is_refused(write: Write, name: str, content: bytes) -> None:
    with pytest.raises(RegardError) as error:
        list(read_pairs(write(name, content)))
    assert f"{name}: no usable pair" in message(error)


def test_two_empty_files_are_refused(write: Write) -> None:
    with pytest.raises(RegardError, match="no usable pair"):
        list(read_pairs(write("s", b""), target_path=write("t", b"")))


def test_an_unreadable_file_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.tsv", b"a\t1\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # permissions do not bind the superuser

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError) as error:
        list(read_pairs(path))
    assert "a.tsv: cannot be read" in message(error)
    assert "Permission denied" in message(error)
