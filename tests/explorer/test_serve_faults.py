"""Whatever is wrong with a request is a 4xx with one clear sentence, and never more than that."""

import asyncio
import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from explorer.tiny_models import encoded, file
from regard.errors import RegardError, UsageError
from regard.explorer import attention, limits
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.hosts import LOCAL
from regard.explorer.limits import Limits
from regard.explorer.serving import listen, read_key

KINDS = {400: "malformed", 404: "not_found", 405: "method_not_allowed", 409: "wrong_model", 413: "too_large"} | {
    415: "unsupported_media_type",
    422: "invalid",
}
JSON = {"content-type": "application/json"}


def assert_refused(response: Any, status: int, *parts: str) -> None:
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error"}
    error = response.json()["error"]
    assert error["type"] == KINDS.get(status, error["type"])
    assert "\n" not in error["message"]
    assert "Traceback" not in error["message"]
    assert str(Path.home()) not in error["message"]
    for part in parts:
        assert part in error["message"]


def bomb() -> str:
    """A small file that says it has 400 million pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100)))).decode()


LONG = "man " * 10_000
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("translate", dict(texts="a man"), 422, "say which model is meant; there are: translator, language"),
    ("translate", dict(model="dmo", texts="a man"), 404, "there is no model 'dmo' here; there are: translator"),
    ("translate", dict(model="classifier", texts="a man"), 409, "classifier is a Classifier, which has no 'translate'"),
    ("attention", dict(model="matcher", image="x"), 409, "has no 'attention'; it has: match"),
    ("translate", dict(model="translator"), 422, "texts: field required"),
    ("translate", dict(model="translator", texts="a", beams=3), 422, "beams: extra inputs are not permitted"),
    ("translate", dict(model="translator", texts=[]), 422, "texts: list should have at least 1 item"),
    ("translate", dict(model="translator", texts=["a"] * 257), 422, "at most 256 items"),
    ("translate", dict(model="translator", texts=["a man", "  "]), 422, "texts.1 is empty"),
    ("translate", dict(model="translator", texts=[7]), 422, "texts.0: input should be a valid string"),
    ("translate", dict(model="translator", texts="a", num_beams=99), 422, "num_beams: input should be less than"),
    (
        "translate",
        dict(model="translator", texts="a", num_beams="2"),
        422,
        "num_beams: input should be a valid integer",
    ),
    ("translate", dict(model="translator", texts="a", do_sample=True, num_return_sequences=2), 422, "as many beams"),
    ("translate", dict(model="translator", texts="a", do_sample=True, num_beams=5), 422, "do_sample needs num_beams=1"),
    ("generate", dict(model="language", prompts="a", do_sample=True, num_beams=2), 422, "do_sample needs num_beams=1"),
    ("caption", dict(model="captioner", images=encoded(), do_sample=True, num_beams=2), 422, "needs num_beams=1"),
    ("translate", dict(model="translator", texts="a", max_new_tokens=5000), 413, "max_new_tokens is 5000 but at most"),
    ("translate", dict(model="translator", texts=LONG), 413, "tokens, but at most 4,096 are read"),
    ("generate", dict(model="language", prompts=LONG), 413, "tokens, but at most 4,096 are read"),
    ("embed", dict(model="embedder", texts="x" * 200_000), 413, "200,000 characters, but at most 131,072 are read"),
    ("fill", dict(model="filler", texts="no gap"), 422, "there is no [MASK] to fill in 'no gap'"),
    ("fill", dict(model="filler", texts="[MASK] " * 60), 422, "the model reads 38 at most"),
    ("classify", dict(model="classifier"), 422, "this model reads texts: give texts, and no images"),
    ("classify", dict(model="vision", texts="a man"), 422, "this model reads images: give images"),
    ("classify", dict(model="classifier", texts="a", second_texts=["b", "c"]), 422, "1 texts but 2 second_texts"),
    ("classify", dict(model="documents", texts="a", second_texts="b"), 422, "does not classify pairs"),
    ("embed", dict(model="embedder", texts="a", pooling="sum"), 422, "no pooling called 'sum'"),
    ("caption", dict(model="captioner", images="???"), 422, "images.0 is not base64"),
    ("caption", dict(model="captioner", images=[encoded(), "aGVsbG8="]), 422, "images.1 is not a readable picture"),
    ("caption", dict(model="captioner", images=bomb()), 413, "pixels; make it smaller"),
    ("caption", dict(model="captioner", images=base64.b64encode(file()[:200]).decode()), 422, "not a readable picture"),
    ("match", dict(model="matcher", images=encoded(), examples={"a": encoded()}), 422, "at least 2 items"),
    (
        "match",
        dict(model="matcher", images=encoded(), examples={c: encoded() for c in "abcd"}),
        422,
        "tells apart 2 to 3",
    ),
    ("attention", dict(model="language", image=encoded()), 422, "reads texts: give one as text, and no image"),
    ("attention", dict(model="language", text="a", target="b"), 422, "target is for translations and captions"),
    ("attention", dict(model="language", text="a", layers=7), 422, "no attention matches layer 7"),
    ("attention", dict(model="language", text="a", heads=[4]), 422, "there is no head 4: there are 4, counted from 0"),
    ("attention", dict(model="language", text="a man", queries=9), 422, "there is no query 9"),
    ("attention", dict(model="language", text="man " * 50), 422, "sees 39 of them at once"),
    ("generate", dict(model="language", prompts=["a", "b"], stream=True), 422, "only a single text can be streamed"),
]


@pytest.mark.parametrize(("verb", "body", "status", "part"), REFUSED, ids=lambda known: None)
def test_wrong_requests(client: TestClient, verb: str, body: dict[str, Any], status: int, part: str) -> None:
    assert_refused(client.post(f"/v1/{verb}", json=body), status, part)


@pytest.mark.parametrize(
    ("content", "headers", "status", "part"),
    [
        (b"", JSON, 400, "the body is not JSON"),
        (b"{", JSON, 400, "the body is not JSON"),
        (b"[" * 100_000, JSON, 400, "recursion limit"),
        (b'{"model": "translator", "texts": "\xff"}', JSON, 400, "not UTF-8 (byte 34)"),
        (b'{"model": "translator", "texts": "\\ud800"}', JSON, 400, "hex escape"),
        (
            b'{"model": "translator", "texts": "a", "temperature": NaN}',
            JSON,
            422,
            "temperature: input should be a finite",
        ),
        (b'{"model": "translator", "texts": "a", "seed": 1' + b"0" * 5000 + b"}", JSON, 400, "not JSON"),
        (b"[1, 2]", JSON, 422, "the body: input should be an object"),
        (b"texts=a", {"content-type": "application/x-www-form-urlencoded"}, 415, "send application/json"),
        (b"{}", {}, 415, "the content type is missing"),
        (b"--x", {"content-type": "multipart/form-data"}, 400, "the form cannot be read"),
        (b"nonsense", {"content-type": "multipart/form-data; boundary=x"}, 400, "the form cannot be read"),
    ],
    ids=lambda known: None,
)
def test_bodies_that_are_no_requests(
    client: TestClient, content: bytes, headers: dict[str, str], status: int, part: str
) -> None:
    assert_refused(client.post("/v1/translate", content=content, headers=headers), status, part)


def test_unknown_places_and_methods(client: TestClient) -> None:
    assert_refused(client.get("/v1/nonsense"), 404, "there is no /v1/nonsense here")
    assert_refused(client.get("/v1/translate"), 405)
    assert_refused(client.delete("/v1/models"), 405)


def test_attention_is_bounded_before_it_is_computed(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict(model="language", text="a man in a hat", weights=True)
    monkeypatch.setattr(attention, "CELLS", 100)
    assert_refused(client.post("/v1/attention", json=asked), 413, "at most 100 are sent")
    fewer = client.post("/v1/attention", json={**asked, "layers": 0, "heads": 0, "queries": [0, -1]})
    assert fewer.status_code == 200
    monkeypatch.setattr(attention, "CELLS", limits.CELLS)
    monkeypatch.setattr(attention, "CELLS_COMPUTED", 10)
    assert_refused(client.post("/v1/attention", json=asked), 413, "at most 10 are computed at once")


def test_what_we_did_not_expect_is_not_told(loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("/secret/place")

    guard = make_app({"tagger": loaded["tagger"]})
    monkeypatch.setattr(type(loaded["tagger"]), "tag", fail)
    response = TestClient(guard, raise_server_exceptions=False).post("/v1/tag", json={"texts": "a"})
    assert_refused(response, 500, "something went wrong in here")
    assert "secret" not in response.text
    with pytest.raises(RuntimeError):  # the server's log hears it
        TestClient(guard).post("/v1/tag", json={"texts": "a"})


def test_too_little_memory_is_the_requests_fault(loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr(type(loaded["tagger"]), "tag", fail)
    client = TestClient(make_app({"tagger": loaded["tagger"]}), raise_server_exceptions=False)
    assert_refused(client.post("/v1/tag", json={"texts": "a"}), 413, "not enough memory")


# Who may come in, and with how much


@pytest.fixture
def keyed(loaded: dict[str, Any]) -> TestClient:
    return TestClient(make_app({"tagger": loaded["tagger"]}, key="long enough"))


def test_with_a_key_only_health_is_open(keyed: TestClient) -> None:
    assert keyed.get("/health").status_code == 200
    for path in ("/v1/models", "/metrics"):
        assert_refused(keyed.get(path), 401, "the API key is missing or wrong")
    refused = keyed.post("/v1/tag", json={"texts": "a"}, headers={"Authorization": "Bearer long enougH"})
    assert_refused(refused, 401)
    assert refused.headers["www-authenticate"] == "Bearer"
    for headers in ({"Authorization": "Bearer long enough"}, {"X-API-Key": "long enough"}):
        assert keyed.post("/v1/tag", json={"texts": "a"}, headers=headers).status_code == 200


def test_a_page_elsewhere_cannot_pretend_to_be_this_machine(loaded: dict[str, Any]) -> None:
    client = TestClient(make_app({"tagger": loaded["tagger"]}, hosts=LOCAL))
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "[", ""):
        assert_refused(
            client.get("/health", headers={"host": host}), 403, "this server is not called", "--allowed-host"
        )
    allowed = client.options("/v1/tag", headers={"host": "localhost", "origin": "http://evil.example"})
    assert "access-control-allow-origin" not in allowed.headers


def raw(guard: Guard, headers: list[tuple[bytes, bytes]], messages: list[dict[str, Any]]) -> tuple[int, int]:
    """A POST without a client in between: the status, and how many of the messages were read."""
    sent: list[Any] = []
    unread = list(messages)

    async def receive() -> Any:
        return unread.pop(0) if unread else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    every = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]
    scope = {"type": "http", "method": "POST", "path": "/v1/tag", "headers": every, "query_string": b"", "asgi": {}}
    asyncio.run(guard({**scope, "http_version": "1.1", "scheme": "http", "root_path": ""}, receive, send))
    return sent[0]["status"], len(messages) - len(unread)


def test_a_large_body_is_refused_before_it_is_read(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]}, Limits(body=1000))
    part = {"type": "http.request", "body": b"x" * 600, "more_body": True}
    assert raw(guard, [(b"content-length", b"1001")], [part, part]) == (413, 0)
    assert raw(guard, [(b"content-length", b"9" * 5000)], [part, part]) == (413, 0)
    assert raw(guard, [], [part] * 9) == (413, 2)  # one that does not say how long it is


def test_a_client_that_leaves_in_the_middle_is_no_fault_of_ours(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]})
    assert raw(guard, [], [{"type": "http.request", "body": b"{", "more_body": True}]) == (499, 1)
    whole = json.dumps({"texts": "a man"}).encode()
    assert raw(guard, [], [{"type": "http.request", "body": whole, "more_body": False}])[0] in (200, 499)
    assert guard.running == 0


def test_a_body_that_never_comes_is_408(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]}, Limits(seconds=0.1))

    async def receive() -> Any:
        await asyncio.sleep(60)

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/tag", "query_string": b"", "scheme": "http"}
    scope |= {"headers": [(b"content-type", b"application/json")], "http_version": "1.1", "root_path": ""}
    asyncio.run(guard(scope, receive, send))
    assert sent[0]["status"] == 408


def test_a_server_that_is_about_to_stop_takes_nothing_new(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]})
    guard.draining = True
    client = TestClient(guard)
    for response in (client.get("/health"), client.post("/v1/tag", json={"texts": "a"})):
        assert_refused(response, 503, "about to stop")
        assert response.headers["retry-after"] == "1"
        assert response.headers["connection"] == "close"
    assert client.get("/metrics").status_code == 200


# Before it listens


def test_keys_addresses_and_limits_are_checked_first(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(UsageError, match="No such file"):
        read_key(str(path))
    for content, part in ((b"short\n", "at least 8 characters"), (b"\xff" * 20, "not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=part):
            read_key(str(path))
    path.write_bytes(b"a good key\nand a note\n")
    assert read_key(str(path)) == "a good key"
    with listen("127.0.0.1", 0) as opened, pytest.raises(RegardError, match="choose another --port"):
        listen("127.0.0.1", opened.getsockname()[1])
    with pytest.raises(UsageError, match="no address to listen on"):
        listen("not a host", 0)
    for name in ("body", "tokens", "concurrent", "seconds"):
        for value in (0, -1, float("nan")):
            with pytest.raises(UsageError, match=f"the limit {name} is"):
                Limits(**{name: value})
