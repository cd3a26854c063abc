"""IMDB: its archive becomes the documented tables, its validation part is fixed and apart."""

import gzip
import hashlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.loopback import served
from regard.data import imdb as module
from regard.data.imdb import imdb
from regard.errors import RegardError, UsageError


def archive(path: Path) -> None:
    """A small one, built like the official one."""
    with tarfile.open(path, "w:gz") as opened:
        for name, text in {
            "aclImdb/README": "read me",
            "aclImdb/train/unsup/0_0.txt": "nobody knows",
            **{
                f"aclImdb/train/{kind}/{i}_{9 if kind == 'pos' else 2}.txt": f"{kind} {i}<br />é"
                for kind in ("neg", "pos")
                for i in range(6)
            },
            "aclImdb/test/neg/3_1.txt": "bad",
            "aclImdb/test/pos/4_10.txt": "good",
        }.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    archive(tmp_path / "served.tar.gz")
    monkeypatch.setattr(module, "SHA256", hashlib.sha256((tmp_path / "served.tar.gz").read_bytes()).hexdigest())
    monkeypatch.setattr(module, "VALID_OF_EACH", 2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with served(tmp_path) as url:
        monkeypatch.setattr(module, "URL", f"{url}/served.tar.gz")
        yield tmp_path / "data"


def test_the_archive_is_fetched_once_and_becomes_two_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {(known.text, known.label) for known in imdb(folder, "test")} == {("bad", "negative"), ("good", "positive")}
    table = gzip.decompress((folder / "imdb" / "train.jsonl.gz").read_bytes()).decode("utf-8")
    rows = [json.loads(line) for line in table.splitlines()]
    assert len(rows) == 12
    assert {"id": "train/pos/3_9", "label": 1, "rating": 9, "text": "pos 3<br />é"} in rows
    assert sorted(path.name for path in (folder / "imdb").iterdir()) == ["test.jsonl.gz", "train.jsonl.gz"]
    monkeypatch.setattr(module, "URL", "https://nowhere.invalid")
    assert len(list(imdb(folder, "train"))) == 8


def test_train_and_valid_share_no_text_and_are_balanced(folder: Path) -> None:
    train, valid = list(imdb(folder, "train")), list(imdb(folder, "valid"))
    assert Counter(known.label for known in valid) == {"negative": 2, "positive": 2}
    assert len(train) == 8
    assert {known.text for known in train} & {known.text for known in valid} == set()
    assert [known.text for known in imdb(folder, "valid")] == [known.text for known in valid]


def test_a_wrong_archive_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHA256", "0" * 64)
    with pytest.raises(
        RegardError, match=r"has SHA-256 .* instead of 0000.*put train\.jsonl\.gz and test\.jsonl\.gz into"
    ):
        imdb(folder, "train")
    assert not list((folder / "imdb").iterdir())
    with pytest.raises(UsageError, match="unknown split 'dev'"):
        imdb(folder, "dev")


def test_an_archive_that_swells_is_not_unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REVIEWS_MOST", 20)
    with pytest.raises(RegardError, match="the reviews swell to more than 20 bytes"):
        imdb(folder, "train")
    assert not list((folder / "imdb").iterdir())


@pytest.mark.real_data
def test_the_real_reviews_are_all_there(real_data: Path) -> None:
    if not (real_data / "imdb").is_dir():
        pytest.skip("REGARD_DATA has no imdb folder")
    valid = Counter(known.label for known in imdb(real_data, "valid"))
    assert valid == {"negative": 1255, "positive": 1251}
