"""`hf:OWNER/NAME`, against a hub on this machine: what is fetched, what is not, and what goes wrong."""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch
from safetensors.torch import load_file
from tiny_checkpoints import bert_folder

import regard
from regard.errors import RegardError, UsageError

COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """The few answers that fetching a snapshot needs, for the one checkpoint `tiny/bert`."""

    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, with_body: bool) -> None:
        path = unquote(self.path).partition("?")[0]
        if "/tiny/bert" not in path:
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, with_body)
        if "elsewhen" in path:
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, with_body)
        if path.startswith("/api/"):
            files = [one for one in sorted(self.folder.rglob("*")) if one.is_file()]
            names = [one.relative_to(self.folder).as_posix() for one in files]
            if "/tree/" in path:
                rows = [
                    {"type": "file", "path": n, "size": f.stat().st_size, "oid": _digest(f)}
                    for n, f in zip(names, files, strict=True)
                ]
                return self.send(200, json.dumps(rows).encode(), {"Content-Type": "application/json"}, with_body)
            listed = {"id": "tiny/bert", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            return self.send(200, json.dumps(listed).encode(), {"Content-Type": "application/json"}, with_body)
        name = path.split(f"/resolve/{COMMIT}/")[-1]
        if with_body:
            self.asked.append(name)
        file = self.folder / name
        self.send(200, file.read_bytes(), {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": COMMIT}, with_body)

    def send(self, code: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A hub that has the checkpoint `tiny/bert`, and an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")

    class Ours(Hub):
        folder = tmp_path / "remote"
        asked: list[str] = []

    bert_folder(Ours.folder, "bert-embedder")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ours)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield Ours
    server.shutdown()
    server.server_close()


def test_a_checkpoint_is_fetched_once_and_only_what_is_read(hub: type[Hub]) -> None:
    for useless in ("README.md", "tf_model.h5", "onnx/model.onnx", "pytorch_model.bin"):
        (hub.folder / useless).parent.mkdir(exist_ok=True)
        (hub.folder / useless).write_bytes(b"large")
    loaded = regard.load("hf:tiny/bert", device="cpu")
    assert loaded.embed("the cat").shape == (1, 8)
    assert sorted(hub.asked) == ["config.json", "model.safetensors", "tokenizer.json"]
    regard.load("hf:tiny/bert@main", device="cpu")
    regard.load(f"hf:tiny/bert@{COMMIT}", device="cpu")
    assert len(hub.asked) == 3


def test_the_old_format_is_fetched_where_there_is_no_other(hub: type[Hub]) -> None:
    torch.save(load_file(hub.folder / "model.safetensors"), hub.folder / "pytorch_model.bin")
    (hub.folder / "model.safetensors").unlink()
    assert regard.load("hf:tiny/bert", device="cpu").embed("the cat").shape == (1, 8)
    assert sorted(hub.asked) == ["config.json", "pytorch_model.bin", "tokenizer.json"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hf:tiny/bart", "hf:tiny/bart: there is no such checkpoint on the hub, or it is not public"),
        ("hf:tiny/bert@elsewhen", "hf:tiny/bert@elsewhen: the checkpoint has no such revision"),
        ("hf:", "'hf:' names no checkpoint; write hf:OWNER/NAME"),
        ("hf:a/b/c", "hf:a/b/c: not the name of a checkpoint"),
    ],
)
def test_a_name_that_is_not_there_is_told(name: str, told: str, hub: type[Hub]) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        regard.load(name)
    assert "\n" not in str(raised.value)


def test_without_a_network_what_was_fetched_opens_and_the_rest_is_told(
    hub: type[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    regard.load("hf:tiny/bert", device="cpu")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    regard.load("hf:tiny/bert", device="cpu")
    with pytest.raises(RegardError, match=r"hf:tiny/other: could not be fetched .*give the folder") as raised:
        regard.load("hf:tiny/other")
    assert "\n" not in str(raised.value)


def test_without_the_package_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"needs the package huggingface_hub: pip install 'regard\[hub\]'"):
        regard.load("hf:tiny/bert")


def test_a_name_without_hf_is_told_how_to_write_it() -> None:
    with pytest.raises(UsageError, match=r"bert-base-uncased: no such run or .*is written hf:OWNER/NAME"):
        regard.load("bert-base-uncased")
