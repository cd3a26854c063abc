import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.data import named as module
from regard.data.named import MULTI30K_SHA256, NAMED, data_folder, multi30k, named
from regard.data.pairs import Pair
from regard.errors import RegardError, UsageError

ENGLISH, GERMAN = b"a cat\na dog\n", "eine Katze\nein Hündchen\n".encode()
PAIRS = [Pair("a cat", "eine Katze"), Pair("a dog", "ein Hündchen")]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a stand-in for the official source serves, with two made-up files of each kind."""
    folder = tmp_path / "site"
    for kind, ending in (("raw", ""), ("tok", ".lc.norm.tok")):
        (folder / kind).mkdir(parents=True)
        for language, content in (("en", ENGLISH), ("de", GERMAN)):
            name = f"{kind}/val{ending}.{language}"
            if kind == "raw":
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
            monkeypatch.setitem(MULTI30K_SHA256, name, hashlib.sha256(content).hexdigest())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(module, "MULTI30K_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Where data lies


def test_the_folder_asked_for_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "environment"))
    assert data_folder(str(tmp_path / "asked")) == tmp_path / "asked"
    assert data_folder(None) == tmp_path / "environment"


@pytest.mark.parametrize("unset", ["", None])
def test_without_either_the_users_cache_folder_is_taken(
    unset: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unset is None:
        monkeypatch.delenv("REGARD_DATA", raising=False)
    else:
        monkeypatch.setenv("REGARD_DATA", unset)
    import platformdirs

    assert data_folder(None) == platformdirs.user_cache_path("regard", appauthor=False) / "data"


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--data: .*file is not a folder"):
        data_folder(tmp_path / "file")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"REGARD_DATA: .*file is not a folder"):
        data_folder(None)


# Multi30k


@pytest.mark.parametrize("text", ["tok", "raw"])
def test_multi30k_is_downloaded_once_and_then_read_from_the_folder(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    folder = tmp_path / "data"
    assert list(multi30k(folder, "valid", text=text)) == PAIRS
    ending = {"tok": ".lc.norm.tok", "raw": ""}[text]
    assert files_in(folder) == [f"multi30k/{text}/val{ending}.de.gz", f"multi30k/{text}/val{ending}.en.gz"]

    monkeypatch.setattr(module, "MULTI30K_URL", "nowhere")
    turned = [Pair(pair.target, pair.source) for pair in PAIRS]
    assert list(multi30k(folder, "valid", "de", "en", text)) == turned


@pytest.mark.parametrize("text", ["tok", "raw"])
def test_multi30k_with_a_wrong_checksum_is_not_kept(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    for name in list(MULTI30K_SHA256):
        monkeypatch.setitem(MULTI30K_SHA256, name, "0" * 64)
    with pytest.raises(RegardError) as error:
        multi30k(tmp_path / "data", "valid", text=text)
    assert "instead of 0000" in str(error.value)
    assert files_in(tmp_path / "data") == []


def test_a_damaged_download_of_multi30k_is_not_kept(site: Path, tmp_path: Path) -> None:
    whole = (site / "raw/val.en.gz").read_bytes()
    for content in (whole[:-9], b"not gzip"):
        (site / "raw/val.en.gz").write_bytes(content)
        with pytest.raises(RegardError) as error:
            multi30k(tmp_path / "data", "valid", text="raw")
        assert "raw/val.en.gz is damaged" in str(error.value)
        assert "\n" not in str(error.value)
    assert files_in(tmp_path / "data") == []


def test_multi30k_out_of_reach_is_told_with_the_place_to_put_it(site: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError) as error:
        multi30k(tmp_path / "data", "train")
    assert "404" in str(error.value)
    place = tmp_path / "data" / "multi30k" / "tok" / "train.lc.norm.tok.en.gz"
    assert f"put the file at {place} yourself" in str(error.value)
    assert "\n" not in str(error.value)
    assert files_in(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"split": "dev"}, "unknown split 'dev'; choose one of train, valid, test"),
        ({"source": "es"}, "unknown language 'es'; choose one of en, de, fr, cs"),
        ({"target": "../de"}, "unknown language '../de'"),
        ({"text": "bpe"}, "unknown text 'bpe'; choose one of raw, tok"),
        ({"source": "de"}, "both 'de'"),
    ],
)
def test_multi30k_refuses_what_it_does_not_hold(tmp_path: Path, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        multi30k(tmp_path, **{"split": "train", **options})
    assert complaint in str(error.value)


def test_the_checksum_of_every_file_of_multi30k_is_known() -> None:
    names = {
        f"{text}/{split}{ending}.{language}"
        for text, ending in module.MULTI30K_ENDINGS.items()
        for split in module.MULTI30K_SPLITS.values()
        for language in module.MULTI30K_LANGUAGES
    }
    assert set(MULTI30K_SHA256) == names


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(os.environ.get("REGARD_DATA", ""))
    if not os.environ.get("REGARD_DATA") or not (folder / "multi30k").is_dir():
        pytest.skip("REGARD_DATA does not hold multi30k")
    monkeypatch.setattr(module, "MULTI30K_URL", "nowhere")
    return folder


@pytest.mark.real_data
def test_the_real_multi30k_has_the_known_checksums(real: Path) -> None:
    for name, sha256 in MULTI30K_SHA256.items():
        content = gzip.decompress((real / "multi30k" / f"{name}.gz").read_bytes())
        assert hashlib.sha256(content).hexdigest() == sha256, name


@pytest.mark.real_data
@pytest.mark.parametrize(("split", "count"), [("train", 29_000), ("valid", 1014), ("test", 1000)])
@pytest.mark.parametrize("text", ["tok", "raw"])
def test_the_real_multi30k_is_read_in_both_directions(real: Path, split: str, count: int, text: str) -> None:
    there = [(pair.source, pair.target) for pair in multi30k(real, split, "cs", "fr", text)]
    back = [(pair.target, pair.source) for pair in multi30k(real, split, "fr", "cs", text)]
    assert there == back
    assert len(there) == count


# By name


def test_a_data_set_is_found_by_its_name(site: Path, tmp_path: Path) -> None:
    assert list(named("multi30k", tmp_path / "data", "valid", text="raw")) == PAIRS


def test_the_bundled_corpus_is_found_by_its_name(tmp_path: Path) -> None:
    pairs = list(named("corpus", tmp_path, "train", count=5, seed=1))
    assert len(pairs) == 5
    assert all(isinstance(pair, Pair) for pair in pairs)


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        named("wmt14", tmp_path, "train")
    assert "'wmt14'" in str(error.value)
    assert all(name in str(error.value) for name in NAMED)


def test_an_unknown_option_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        named("multi30k", tmp_path, "train", langauge="en")
    assert "no option 'langauge'; its options are source, target, text" in str(error.value)
