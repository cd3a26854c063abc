"""A treebank that is not there is fetched, checked and kept whole, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data import download, treebanks
from regard.errors import RegardError


def test_a_file_of_another_content_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str, *_: object) -> Iterator[bytes]:
        assert url.endswith("/en_ewt-ud-dev.conllu")
        yield b"1\tsomething else\n"

    monkeypatch.setattr(download, "fetch", fetch)
    with pytest.raises(RegardError, match=r"put the file at .*en_ewt-ud-dev.conllu.gz yourself"):
        treebanks.ewt(tmp_path, "valid")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_right_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip
    import hashlib

    content = b"1\tword\n"
    monkeypatch.setattr(download, "fetch", lambda url, *_: iter([content]))
    monkeypatch.setitem(treebanks.EWT_SHA256, "dev", hashlib.sha256(content).hexdigest())
    assert gzip.decompress(treebanks.ewt(tmp_path, "valid").read_bytes()) == content
