"""Strangers: what they send, how slowly, and from where. They get a 4xx or a closed door, everybody else an answer."""

import asyncio
import json
import logging
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from explorer.conftest import paused
from explorer.tiny_models import encoded, file
from regard.errors import RegardError, UsageError
from regard.explorer import guard as guarding
from regard.explorer.app import make_app
from regard.explorer.dawdlers import Dawdlers
from regard.explorer.guard import Guard
from regard.explorer.hosts import LOCAL
from regard.explorer.limits import Limits
from regard.explorer.refusals import LONGEST, without_places
from regard.explorer.server import Server
from regard.explorer.serving import listen, the_key
from regard.explorer.worker import Work

JSON = {"content-type": "application/json"}
PLACES = ("/v1/tag", "/v1/look", "/v1/look/tile")
PICTURE = encoded()
GOOD = json.dumps({"texts": "a man"}).encode()


@pytest.fixture
def tagger(loaded: dict[str, Any]) -> dict[str, Any]:
    return {"tagger": loaded["tagger"]}


def test_a_head_that_came_at_once_is_bounded_too(tagger: dict[str, Any]) -> None:
    client = TestClient(make_app(tagger))
    long = client.get("/health", headers={"x-long": "x" * 70_000})
    assert (long.status_code, "64 kB" in long.text) == (431, True)
    assert client.get("/health", headers={"x-long": "x" * 50_000}).status_code == 200


# A body that takes its time


async def answered(guard: Guard, place: str, receive: Callable[[], Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to a POST whose body comes from `receive`."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": place, "query_string": b"", "scheme": "http", "root_path": ""}
    scope |= {"headers": [(b"content-type", b"application/json"), (b"host", b"localhost")], "http_version": "1.1"}
    await guard(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(each.get("body", b"") for each in sent[1:]))


@pytest.mark.parametrize("place", PLACES)
def test_a_body_that_trickles_in_is_408_everywhere(tagger: dict[str, Any], place: str) -> None:
    guard = make_app(tagger, Limits(seconds=0.3))

    async def receive() -> Any:
        await asyncio.sleep(0.01)  # there is always one more byte
        return {"type": "http.request", "body": b" ", "more_body": True}

    status, told = asyncio.run(asyncio.wait_for(answered(guard, place, receive), 60))
    assert status == 408
    assert told["error"] == {"type": "too_slow", "message": "the body did not arrive within 0.3 s"}
    assert guard.running == 0


@pytest.mark.parametrize("place", PLACES)
def test_a_body_that_grows_is_413_everywhere(tagger: dict[str, Any], place: str) -> None:
    guard = make_app(tagger, Limits(body=1000))
    read = 0

    async def receive() -> Any:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 300, "more_body": True}

    status, told = asyncio.run(asyncio.wait_for(answered(guard, place, receive), 60))
    assert (status, told["error"]["type"], read) == (413, "too_large", 4)


def test_the_time_for_a_body_is_not_that_for_an_answer(tagger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "BODY_SECONDS", 0.2)
    guard, over = make_app(tagger), threading.Event()
    worker = guard.app.state.shelf.models["tagger"].worker  # type: ignore[attr-defined]
    worker.submit(Work(lambda items: items if over.wait(60) else [], [None]))
    messages = [{"type": "http.request", "body": GOOD, "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await asyncio.sleep(600)  # a client that stays
        return messages.pop()

    async def ask() -> int:
        asking = asyncio.create_task(answered(guard, "/v1/tag", receive))
        await asyncio.sleep(0.5)
        assert not asking.done()
        over.set()
        return (await asking)[0]

    try:
        assert asyncio.run(ask()) == 200
    finally:
        over.set()


# What nobody should send

DEEP = b'{"texts": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a number": b"1",
    "deep lists": DEEP,
    "deep objects": b'{"a":' * 50_000,
    "a huge whole number": b'{"texts": "a man", "model": "tagger", "num_beams": 1' + b"0" * 4000 + b"}",
    "a huge float": b'{"texts": "a man", "temperature": 1e999}',
    "NaN": b'{"texts": "a man", "temperature": NaN}',
    "infinity": b'{"texts": "a man", "temperature": -Infinity}',
    "half a surrogate pair": b'{"texts": "\\ud800"}',
    "half a surrogate pair in a name": b'{"\\udfff": 1}',
    "surrogates in raw bytes": b'{"texts": "\xed\xa0\x80"}',
    "UTF-16": '{"texts": "a man"}'.encode("utf-16"),
    "a mark of byte order": b"\xef\xbb\xbf" + GOOD,
    "a zero byte": b'{"texts": "a\x00man"}',
    "zero escaped": b'{"texts": "\\u0000", "session": "\\u0000", "text": "\\u0000"}',
    "two objects": GOOD + GOOD,
    "a comment": b'{"texts": "a" /* b */}',
    "single quotes": b"{'texts': 'a'}",
    "a path for a model": b'{"model": "../../etc/passwd", "texts": "a", "text": "a"}',
    "a path for a session": b'{"session": "/etc/passwd"}',
    "control characters": b'{"texts": "\\u0001\\u001f\\u200e\\ufeff", "text": "\\u202e"}',
    "objects for texts": b'{"texts": {"0": "a"}, "text": {"a": 1}}',
}
ANYWHERE = ("/v1/translate", "/v1/generate", "/v1/classify", "/v1/caption", "/v1/match", "/v1/attention", *PLACES)


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_everywhere_in_one_sentence(client: TestClient, name: str) -> None:
    for place in ANYWHERE:
        response = client.post(place, content=NONSENSE[name], headers=JSON)
        assert 400 <= response.status_code < 500, (place, response.status_code, response.text)
        told = response.json()["error"]["message"]
        assert told
        assert "\n" not in told
        assert len(told) <= LONGEST + 3


def test_of_a_name_that_comes_twice_the_last_one_counts(client: TestClient) -> None:
    body = b'{"model": "tagger", "texts": "a man", "texts": "two dogs"}'
    (result,) = client.post("/v1/tag", content=body, headers=JSON).json()["results"]
    assert result["words"] == ["two", "dogs"]


def test_only_json_and_forms_are_read(client: TestClient) -> None:
    for kind in (
        "",
        "text/plain",
        "application/jsonp",
        "application/x-www-form-urlencoded",
        "multipart/mixed",
        "é",
        ";;",
    ):
        response = client.post("/v1/tag", content=GOOD, headers={"content-type": kind.encode()})
        assert response.status_code == 415, kind
    body = json.dumps({"model": "tagger", "texts": "a man"})
    assert client.post("/v1/tag", content=body, headers={"content-type": "APPLICATION/JSON ; x=y"}).status_code == 200


FORMS: dict[str, tuple[str, bytes]] = {
    "no boundary": ("multipart/form-data", b"--x\r\n"),
    "an empty boundary": ("multipart/form-data; boundary=", b"--\r\n"),
    "no end": ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="images"\r\n\r\nx'),
    "no name": ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--\r\n"),
    "half a surrogate pair": (
        "multipart/form-data; boundary=x; charset=utf-7",
        b'--x\r\nContent-Disposition: form-data; name="+2AA-"\r\n\r\n+2AA-\r\n--x--\r\n',
    ),
    "another charset": (
        "multipart/form-data; boundary=x; charset=unicode_escape",
        b'--x\r\nContent-Disposition: form-data; name="texts"\r\n\r\n\\ud800\r\n'
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ntranslator\r\n--x--\r\n',
    ),
    "a charset in capital letters": (
        'multipart/form-data; boundary=x; CharSet="UTF-7"',
        b'--x\r\nContent-Disposition: form-data; name="texts"\r\n\r\n+2AA-\r\n'
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ntranslator\r\n--x--\r\n',
    ),
    "a name that climbs": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="images"; filename="../../../tmp/x"\r\n\r\nx\r\n--x--\r\n',
    ),
    "many fields": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n' * 500 + b"--x--\r\n",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_are_none_are_refused(client: TestClient, name: str) -> None:
    kind, body = FORMS[name]
    for place in ("/v1/caption", "/v1/classify", "/v1/translate"):
        response = client.post(place, content=body, headers={"content-type": kind})
        assert 400 <= response.status_code < 500, (place, response.text)
        assert response.json()["error"]["message"]


def test_what_is_sent_is_not_repeated_at_length(client: TestClient) -> None:
    for body in ({"n" * 100_000: 1}, {"model": "m" * 400}, {"model": "filler", "texts": "x" * 50_000}):
        response = client.post("/v1/fill", json=body)
        assert 400 <= response.status_code < 500
        assert len(response.content) < LONGEST + 200
    assert len(client.get("/" + "n" * 5000).content) < 300


def test_what_is_sent_cannot_break_the_line_it_is_repeated_in(client: TestClient) -> None:
    for name, shown in (("a\nb", "a\\nb"), ("\u2028", "\\u2028"), ("\u202e\x1b[31m", "\\u202e\\x1b[31m")):
        message = client.post("/v1/fill", json={"texts": "a", name: 1}).json()["error"]["message"]
        assert message.startswith(f"{shown}: extra inputs are not permitted")


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("place", ["/v1/tag", "/v1/models", "/", "/nonsense"])
def test_other_methods_are_refused_and_offer_nothing(client: TestClient, method: str, place: str) -> None:
    response = client.request(method, place, headers={"origin": "http://evil.example"})
    assert response.status_code == (404 if place == "/nonsense" else 405)
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_a_head_is_that_of_the_answer(client: TestClient) -> None:
    whole, head = client.get("/health"), client.head("/health")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert client.head("/v1/tag").status_code == 405


def test_no_answer_sends_a_client_elsewhere(client: TestClient) -> None:
    for place in ("/v1/models/", "/v1/tag/", "//v1/models", "/docs/"):
        response = client.post(place, json={}, headers={"host": "evil.example"}, follow_redirects=False)
        assert response.status_code == 404
        assert "location" not in response.headers


def test_odd_names_of_the_server_are_no_fault_of_ours(tagger: dict[str, Any]) -> None:
    client = TestClient(make_app(tagger, key="long enough"))  # with a key, any name will do
    for host in ("[", "]", "a b", "x" * 5000, "@", "user@evil.example:99999", "é".encode()):
        assert client.get("/nonsense", headers={"host": host}).status_code == 404
        assert client.get("/health", headers={"host": host}).status_code == 200


def test_too_much_to_make_is_refused_before_it_is_begun(client: TestClient) -> None:
    asked = {"model": "language", "prompts": ["a"] * 256, "num_beams": 32, "max_new_tokens": 100}
    response = client.post("/v1/generate", json=asked)
    assert response.status_code == 413
    assert "256 texts with 32 beams of 100 tokens each are 819,200 tokens" in response.json()["error"]["message"]
    several = {"model": "translator", "texts": ["a"] * 256, "max_new_tokens": 4096, "num_return_sequences": 2}
    assert client.post("/v1/translate", json=several).status_code == 413


def test_the_texts_of_pairs_are_counted_together(loaded: dict[str, Any]) -> None:
    first, second = ["a man in a hat"] * 2, ["two dogs"] * 2
    counts = [sum(len(loaded["classifier"].tokenizer.encode(text)) for text in texts) for texts in (first, second)]
    client = TestClient(make_app({"classifier": loaded["classifier"]}, Limits(tokens=sum(counts) - 1)))
    assert client.post("/v1/classify", json={"texts": first}).status_code == 200
    response = client.post("/v1/classify", json={"texts": first, "second_texts": second})
    assert response.status_code == 413
    assert f"second_texts have {sum(counts)} tokens, but at most" in response.json()["error"]["message"]


UNBOUNDED: list[tuple[str, dict[str, Any], str]] = [
    ("match", dict(model="matcher", images=PICTURE, examples={"a" * 201: PICTURE, "b": PICTURE}), "examples.a"),
    ("embed", dict(model="embedder", texts="a", pooling="x" * 201), "pooling"),
    ("generate", dict(model="language", prompts="a", stop=["x" * 1001]), "stop.0"),
    ("attention", dict(model="translator", text="a", layers=["*" * 201]), "layers.0"),  # a pattern, which is remembered
    ("attention", dict(model="translator", text="a", layers=[10**30]), "layers.0"),
    ("attention", dict(model="translator", text="a", heads=[-(10**30)]), "heads.0"),
    ("look", dict(model="matcher", image=PICTURE, examples={"a" * 201: [PICTURE]}), "examples.a"),
    ("look/whatif", dict(session="any", off={str(number): [0] for number in range(257)}), "off"),
]


@pytest.mark.parametrize(("path", "body", "field"), UNBOUNDED)
def test_no_field_is_without_a_bound(client: TestClient, path: str, body: dict[str, Any], field: str) -> None:
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code in (400, 422), response.text
    assert response.json()["error"]["message"].startswith(field), response.text


# From where


def test_pages_from_elsewhere_are_not_answered(tagger: dict[str, Any]) -> None:
    client = TestClient(make_app(tagger, hosts=LOCAL), base_url="http://localhost:8000")
    form = {"files": {"images": file()}}  # what a page may send to anybody without asking
    elsewhere = ("http://localhost:3000", "http://localhost", "https://127.0.0.1", "http://localhost:80000")
    for origin in ("http://evil.example", "null", "https://localhost.evil.example", "http://[", "", *elsewhere):
        for response in (
            client.post("/v1/tag", json={"texts": "a man"}, headers={"origin": origin}),
            client.post("/v1/classify", **form, headers={"origin": origin}),
            client.get("/v1/models", headers={"origin": origin}),
        ):
            assert response.status_code == 403, origin
            assert "not to a page from elsewhere" in response.json()["error"]["message"]
    for origin in ("http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"):
        response = client.post("/v1/tag", json={"texts": "a man"}, headers={"origin": origin})
        assert response.status_code == 200
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("allowed", "host", "origin", "status"),
    [
        ("models.example.org", "models.example.org", "https://models.example.org", 200),
        ("models.example.org", "MODELS.example.org:8000", "http://models.example.org:8000", 200),
        ("models.example.org", "models.example.org", None, 200),
        ("models.example.org", "192.168.1.5:8000", "http://192.168.1.5:8000", 200),  # the address that was reached
        ("models.example.org", "192.168.1.5:8000", "http://192.168.1.5", 403),  # another server of this machine
        ("models.example.org", "192.168.1.6:8000", None, 403),
        ("models.example.org", "evil.example", "http://evil.example", 403),  # DNS rebinding
        ("models.example.org", "models.example.org.evil.example", None, 403),
        ("models.example.org", "x@models.example.org.", None, 403),
        ("models.example.org", "models.example.org", "https://evil.example", 403),
        ("models.example.org", "models.example.org", "https://models.example.org:8443", 403),
        ("models.example.org:443", "127.0.0.1:8000", "https://models.example.org", 200),  # a proxy that hides the name
        ("models.example.org:8443", "127.0.0.1:8000", "https://models.example.org:8443", 200),
        ("models.example.org:8443", "127.0.0.1:8000", "https://models.example.org", 403),
    ],
)
def test_names_and_pages_are_checked_beyond_this_machine_too(
    tagger: dict[str, Any], allowed: str, host: str, origin: str | None, status: int
) -> None:
    client = TestClient(make_app(tagger, hosts=LOCAL | {allowed}), base_url="http://192.168.1.5:8000")
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    for answer in (
        client.get("/v1/models", headers=headers),
        client.post("/v1/tag", content=GOOD, headers=JSON | headers),
    ):
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "place",
    ["/", "/explorer.js", "/explorer.css", "/docs", "/openapi.json", "/health", "/metrics", "/v1/models", "/no"],
)
def test_every_answer_tells_browsers_to_be_careful(client: TestClient, place: str) -> None:
    headers = client.get(place).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy.get("script-src", "'self'") == "'self'"  # no scripts but ours, and none in the page itself


# The key


def test_the_key_is_compared_in_constant_time(tagger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []

    def compare(one: Any, other: Any) -> bool:
        seen.append((one, other))
        return bool(one == other)

    monkeypatch.setattr(guarding.hmac, "compare_digest", compare)
    client = TestClient(make_app(tagger, key="schlüssel 1"))
    assert client.get("/v1/models", headers={"authorization": "Bearer wrong"}).status_code == 401
    right = {"authorization": "Bearer schlüssel 1".encode()}
    assert client.get("/v1/models", headers=right).status_code == 200
    assert seen == [(b"wrong", "schlüssel 1".encode()), ("schlüssel 1".encode(), "schlüssel 1".encode())]


NEARLY = [
    b"",
    b"Bearer",
    b"Bearer ",
    b"Basic long enough",
    b"long enough",
    b"Bearer long enoug",
    b"Bearer long enough!",
]
NEARLY += [b"Bearer LONG ENOUGH", b"Bearer \xff\xfe", b"Bearer " + b"x" * 50_000]


def test_a_key_that_is_nearly_right_is_wrong(tagger: dict[str, Any]) -> None:
    client = TestClient(make_app(tagger, key="long enough"))
    for said in NEARLY:
        for place in ("/v1/models", "/v1/look", "/v1/nonsense", "/metrics"):
            assert client.get(place, headers={"authorization": said}).status_code == 401, said


def test_with_a_key_the_page_and_health_are_open_and_nothing_else_is(tagger: dict[str, Any]) -> None:
    client = TestClient(make_app(tagger, key="long enough"))
    for place in ("/", "/explorer.js", "/explorer.css", "/docs", "/openapi.json", "/health"):
        assert client.get(place).status_code == 200
    for place in ANYWHERE:
        assert client.post(place, json={}).status_code == 401


def test_the_key_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_API_KEY", raising=False)
    assert the_key(None) is None
    monkeypatch.setenv("REGARD_API_KEY", " a good key ")
    assert the_key(None) == "a good key"
    (tmp_path / "key").write_text("another key\n")
    assert the_key(str(tmp_path / "key")) == "another key"
    monkeypatch.setenv("REGARD_API_KEY", "short")
    with pytest.raises(UsageError, match="REGARD_API_KEY must hold a key of at least 8 characters"):
        the_key(None)


# Files of this machine


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("/home/user/runs/demo/model.safetensors: damaged", "(a file here): damaged"),
        ("cannot read '/tmp/x/y.json' (gone)", "cannot read '(a file here)' (gone)"),
        (r"C:\Users\me\run: damaged", "(a file here): damaged"),
        ("and/or either/or/both", "and/or either/or/both"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("either /or", "either /or"),
    ],
)
def test_places_are_taken_out_of_sentences(message: str, told: str) -> None:
    assert without_places(message) == told


@contextmanager
def logged() -> Iterator[list[logging.LogRecord]]:
    """What whoever runs the server gets to read."""
    records: list[logging.LogRecord] = []
    handler, logger = logging.Handler(), logging.getLogger("uvicorn.error")
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)


def test_the_place_of_a_file_is_for_the_log_alone(tagger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RegardError("/home/user/runs/demo/tokenizer.json: damaged; fetch it again")

    monkeypatch.setattr(type(tagger["tagger"]), "tag", fail)
    with logged() as records:
        response = TestClient(make_app(tagger)).post("/v1/tag", json={"texts": "a man"})
    assert response.status_code == 422
    assert response.json()["error"]["message"] == "(a file here): damaged; fetch it again"
    assert ["/home/user/runs/demo/tokenizer.json" in record.getMessage() for record in records] == [True]


def test_nothing_that_is_told_names_a_folder(client: TestClient, tmp_path_factory: pytest.TempPathFactory) -> None:
    secrets = [str(tmp_path_factory.getbasetemp()), str(Path.home()), str(Path.cwd()), str(Path(__file__).parent)]
    answers = [
        client.get(place) for place in ("/", "/docs", "/openapi.json", "/metrics", "/v1/models", "/../etc/passwd")
    ]
    answers += [client.post(place, content=body, headers=JSON) for place in ANYWHERE for body in (b"[", GOOD)]
    answers.append(client.post("/v1/look", json={"model": "tagger", "text": "a man"}))
    for answer in answers:
        assert not [secret for secret in secrets if len(secret) > 1 and secret in answer.text], answer.url


# Connections that dawdle


class Transport:
    def __init__(self) -> None:
        self.unread, self.aborted = 0, False

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True


class Connection:
    def __init__(self, cycle: Any = None) -> None:
        self.transport, self.cycle = Transport(), cycle


class Cycle:
    def __init__(self, response_complete: bool) -> None:
        self.response_complete = response_complete


def aborted_after(connection: Connection, change: Callable[[float], None] | None = None) -> float | None:
    """The second at which somebody who watches every second gives up; None if not within two minutes."""
    dawdlers = Dawdlers(head=10, answer=60, most=100)
    for second in range(121):
        if change is not None:
            change(second)
        dawdlers.see([connection], float(second))
        if connection.transport.aborted:
            return second
    return None


def test_who_never_ends_a_question_is_let_go() -> None:
    assert aborted_after(Connection()) == 11
    assert aborted_after(Connection(Cycle(True))) == 11


def test_who_waits_for_us_may_wait() -> None:
    assert aborted_after(Connection(Cycle(False))) is None


def test_who_asks_again_in_time_may_stay() -> None:
    connection = Connection()

    def change(second: float) -> None:
        if second % 9 == 0:
            connection.cycle = Cycle(True)  # asked and answered

    assert aborted_after(connection, change) is None


def test_who_does_not_take_the_answer_is_let_go() -> None:
    connection = Connection(Cycle(False))
    connection.transport.unread = 1000
    assert aborted_after(connection) == 61

    slow = Connection(Cycle(False))

    def change(second: float) -> None:
        slow.transport.unread = 0 if second % 50 == 0 else 1000  # takes its time, but takes it

    assert aborted_after(slow, change) is None


def test_of_too_many_connections_the_longest_idle_one_is_let_go() -> None:
    dawdlers, waiting, taking = Dawdlers(head=10, answer=60, most=4), Connection(Cycle(False)), Connection(Cycle(True))
    taking.transport.unread = 1000
    idle, later = Connection(), Connection(Cycle(True))
    dawdlers.see([waiting, taking, idle], 0.0)
    dawdlers.see([waiting, taking, later, idle], 1.0)
    there = [waiting, taking, later, idle]
    dawdlers.make_room(later, there)
    assert not any(each.transport.aborted for each in there)
    for gone in (idle, later):
        there.append(Connection())
        dawdlers.make_room(there[-1], there)
        assert [each for each in there if each.transport.aborted] == [gone]
        there.remove(gone)
    for busy in there:
        busy.cycle = Cycle(False)
    there.append(Connection())
    dawdlers.make_room(there[-1], there)
    assert [each for each in there if each.transport.aborted] == [there[-1]]  # all others are being answered


# Over a real network


@contextmanager
def listening(guard: Guard, head_seconds: float = 60.0) -> Iterator[tuple[Server, int]]:
    """A server in a thread of its own, and its port."""
    server = Server(guard, head_seconds)
    with listen("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield server, port
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join(60)
            assert not thread.is_alive()


@contextmanager
def calling(port: int, *options: tuple[int, int, int]) -> Iterator[socket.socket]:
    with socket.socket() as opened:
        for option in options:
            opened.setsockopt(*option)
        opened.settimeout(60)
        opened.connect(("127.0.0.1", port))
        yield opened


def reply(caller: socket.socket) -> bytes:
    """Everything until the other side hangs up."""
    said = b""
    try:
        while part := caller.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said


def trickle(caller: socket.socket, content: bytes) -> None:
    """One byte after the other, until the other side has something to say, or hangs up."""
    for byte in content:
        try:
            caller.sendall(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            return
        if select.select([caller], [], [], 0.05)[0]:
            return


def post(length: str, body: bytes = b"", more: str = "") -> bytes:
    head = f"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n{more}\r\n"
    return head.encode() + body


def well(port: int) -> bool:
    with calling(port) as caller:
        caller.sendall(post(f"Content-Length: {len(GOOD)}", GOOD, "Connection: close\r\n"))
        return reply(caller).startswith(b"HTTP/1.1 200 ")


def test_a_head_that_trickles_in_is_cut_off(tagger: dict[str, Any]) -> None:
    slowly = b"GET /health HTTP/1.1\r\n" + b"X-Slow: slow\r\n" * 500
    with listening(make_app(tagger), head_seconds=1.0) as (_, port):
        with calling(port) as silent, calling(port) as slow:
            trickle(slow, slowly)
            assert reply(slow) == reply(silent) == b""
        with calling(port) as again:  # a second question on the same line may not take longer either
            again.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            said = b""
            while not said.endswith(b'{"status":"ok"}'):
                said += again.recv(65536)
            trickle(again, slowly)
            assert reply(again) == b""
        assert well(port)


def test_a_body_that_trickles_in_hears_408(tagger: dict[str, Any]) -> None:
    guard = make_app(tagger, Limits(seconds=0.5))
    with listening(guard, head_seconds=0.5) as (_, port), calling(port) as slow:
        slow.sendall(post("Content-Length: 1000"))
        trickle(slow, b" " * 1000)
        said = reply(slow)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 0.5 s" in said
        assert guard.running == 0


def test_an_answer_that_nobody_takes_is_thrown_away(tagger: dict[str, Any]) -> None:
    guard = make_app(tagger, Limits(seconds=0.5))
    small = (socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with listening(guard) as (server, port), calling(port, small) as caller:
        caller.sendall(b"GET /explorer.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)  # more than the system would hold
        wait_for(
            lambda: any(known.transport.get_write_buffer_size() for known in list(server.server_state.connections))
        )
        wait_for(lambda: not server.server_state.connections)


def test_many_silent_connections_keep_nobody_out(tagger: dict[str, Any]) -> None:
    with listening(make_app(tagger, Limits(concurrent=2))) as (server, port), ExitStack() as silent:
        for _ in range(40):
            silent.enter_context(calling(port))
        assert well(port)
        wait_for(lambda: 0 < len(server.server_state.connections) <= 16)
        assert well(port)


def test_pages_that_nobody_takes_are_limited_and_models_and_health_answer_on(tagger: dict[str, Any]) -> None:
    guard = make_app(tagger, Limits(concurrent=2))
    small = (socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    many = b"GET /explorer.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200  # more than the system would hold
    with listening(guard) as (_, port), calling(port, small) as one, calling(port, small) as other:
        one.sendall(many)
        other.sendall(many)
        wait_for(lambda: guard.reading == 2)
        for path, status in (("/explorer.js", 429), ("/v1/models", 429), ("/health", 200), ("/metrics", 200)):
            with calling(port) as caller:
                caller.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                assert reply(caller).startswith(f"HTTP/1.1 {status} ".encode()), path
        assert well(port)
    assert guard.reading == 0


MALFORMED: dict[str, bytes] = {
    "noise": bytes(range(256)) * 4,
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "a version that does not exist": b"GET /no HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "two lengths": post("Content-Length: 5\r\nContent-Length: 6", b"hello"),
    "a length and none": post("Content-Length: 5\r\nTransfer-Encoding: chunked", b"hello"),
    "a negative length": post("Content-Length: -1"),
    "a length in words": post("Content-Length: five", b"hello"),
    "an odd encoding": post("Transfer-Encoding: gzip", b"hello"),
    "an odd chunk": post("Transfer-Encoding: chunked", b"zz\r\nhello\r\n0\r\n\r\n"),
    "a head without an end": b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * 200_000,
    "many lines": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-More: 1\r\n" * 20_000 + b"\r\n",
    "a zero byte in a line": b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "an odd path": b"GET nonsense HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "a folded line": b"GET /no HTTP/1.1\r\nHost: localhost\r\n X: y\r\nConnection: close\r\n\r\n",
}


def test_what_is_not_http_is_4xx_and_harms_nobody(tagger: dict[str, Any]) -> None:
    with listening(make_app(tagger)) as (_, port), logged() as records:
        for name, content in MALFORMED.items():
            with calling(port) as caller:
                try:
                    caller.sendall(content)
                    caller.shutdown(socket.SHUT_WR)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                said = reply(caller)
            assert not said or said.startswith(b"HTTP/1.1 4"), (name, said[:200])
        assert well(port)
    assert records  # of requests that are none, but
    assert not [record for record in records if record.levelno >= logging.ERROR]


def test_a_large_body_is_refused_whether_it_says_so_or_not(tagger: dict[str, Any]) -> None:
    with listening(make_app(tagger, Limits(body=1000))) as (_, port):
        with calling(port) as honest:
            honest.sendall(post("Content-Length: 99999999999999999999"))
            assert honest.recv(65536).startswith(b"HTTP/1.1 413 ")
        with calling(port) as other:
            other.sendall(post("Transfer-Encoding: chunked", b"300\r\n" + b"x" * 768 + b"\r\n"))
            other.sendall(b"300\r\n" + b"x" * 768 + b"\r\n")
            assert other.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert well(port)


def test_who_is_asked_to_stop_finishes_what_was_begun_and_waits_for_nobody_else(tagger: dict[str, Any]) -> None:
    guard = make_app(tagger)
    with listening(guard) as (server, port), calling(port) as silent, calling(port) as slow, calling(port) as good:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        slow.sendall(post(f"Content-Length: {len(GOOD)}", GOOD[:5]))
        with paused(guard, "tagger"):
            good.sendall(post(f"Content-Length: {len(GOOD)}", GOOD))
            wait_for(lambda: guard.running == 2)
            server.handle_exit(signal.SIGTERM, None)
            with calling(port) as late:
                late.sendall(post(f"Content-Length: {len(GOOD)}", GOOD))
                assert late.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert reply(good).startswith(b"HTTP/1.1 200 ")
        slow.sendall(GOOD[5:])
        assert reply(slow).startswith(b"HTTP/1.1 200 ")
        assert reply(silent) == b""


def wait_for(condition: Callable[[], bool]) -> None:
    over = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < over
        time.sleep(0.02)
