"""Labelled texts from tables, and what is said of broken ones."""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from regard.data import labelled
from regard.data.labelled import read_labelled, read_texts
from regard.errors import RegardError, UsageError

ROWS = [("A fine film.", "good"), ('He said "no",\tand left.', "bad"), ("Line one.", "good")]


def write(path: Path, rows: list[tuple[str, object]], names: tuple[str, str] = ("text", "label")) -> Path:
    opened = gzip.open if path.suffix == ".gz" else open
    form = path.name.removesuffix(".gz").rpartition(".")[2]
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        if form == "jsonl":
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        elif form == "csv":
            csv.writer(file).writerows([names, *rows])
        else:
            file.writelines("\t".join(map(str, row)) + "\n" for row in [names, *rows])
    return path


def found(path: Path, **options: str) -> list[tuple[str, str]]:
    return [(known.text, known.label) for known in read_labelled(path, **options)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz"])
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    rows = [(text.replace("\t", " "), label) for text, label in ROWS] if "tsv" in name else ROWS
    assert found(write(tmp_path / name, rows)) == rows


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    texts, labels = zip(*ROWS, strict=True)
    parquet.write_table(pyarrow.table({"text": texts, "label": labels}), tmp_path / "a.parquet")
    assert found(tmp_path / "a.parquet") == ROWS
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(RegardError, match=r"b\.parquet: not a readable Parquet file"):
        found(tmp_path / "b.parquet")


def test_quoted_cells_may_hold_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [("One.\nTwo.", "x"), ("Three", "y")])
    assert found(path) == [("One.\nTwo.", "x"), ("Three", "y")]


def test_columns_have_names_and_labels_may_be_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [("fine", 1), ("poor", 0)], ("review", "stars"))
    assert found(path, text_column="review", label_column="stars") == [("fine", "1"), ("poor", "0")]
    with pytest.raises(UsageError, match=r"a\.jsonl, line 1: no column 'text'; the columns are 'review', 'stars'"):
        found(path)


def test_empty_and_overlong_texts_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "LONGEST_TEXT", 100)
    path = write(tmp_path / "a.jsonl", [("fine", 1), (" ", 0), ("x" * 200, 1), ("poor", 0)])
    path.write_text(path.read_text() + "\n")
    skipped: Counter[str] = Counter()
    assert [known.text for known in read_labelled(path, skipped=skipped)] == ["fine", "poor"]
    assert skipped == {"empty": 2, "too long": 1}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": ', "line 2: not JSON"),
        ("a.jsonl", "[1, 2]\n", r"line 1: \[1, 2\] is not an object"),
        ("a.jsonl", '{"text": 5, "label": "b"}\n', "line 1: 'text' is 5; it must be a text"),
        ("a.jsonl", '{"text": "a", "label": null}\n', "line 1: 'label' is None; a label is a text or a whole number"),
        ("a.jsonl", '{"text": "a", "label": 0.5}\n', "line 1: 'label' is 0.5"),
        ("a.jsonl", '{"text": "a", "label": " "}\n', "line 1: 'label' is ' '"),
        ("a.tsv", "text\tlabel\nonly one\n", "line 2: 1 column instead of the header's 2"),
        ("a.csv", 'text,label\n"open,b\nc,d\n', "line 3: not CSV"),
        ("a.csv", "text,label\na,b,c\n", "line 2: 3 columns instead of the header's 2"),
        ("a.jsonl", "", "no usable text"),
        ("a.jsonl", '{"text": "", "label": 1}\n', r"no usable text \(1 empty\)"),
        ("a.txt", "a\n", "unknown form; use .jsonl, .tsv, .csv"),
    ],
)
def test_a_broken_file_is_said_to_be_broken_in_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(RegardError, match=message) as caught:
        found(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_wrong_use_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_labelled(tmp_path / "a.jsonl")
    with pytest.raises(UsageError, match="is a folder"):
        read_labelled(tmp_path)


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud83d b", "label": 1}\n', "utf-8")
    assert found(tmp_path / "a.jsonl") == [("a ? b", "1")]


def test_texts_to_classify_need_no_label_and_keep_their_number(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": ""}\n{"text": "b"}\n', "utf-8")
    assert list(read_texts(tmp_path / "a.jsonl")) == ["a", "", "b"]
