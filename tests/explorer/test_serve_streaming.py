"""Text that appears while it is made, and stops when nobody reads it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from explorer.conftest import paused
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.limits import Limits

ASKED = dict(model="language", prompts="the animal", max_new_tokens=7, stream=True)


def events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n\n"):
        if line:
            assert line.startswith("data: ")
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("more", [{}, {"do_sample": True, "seed": 5}, {"num_beams": 2}, {"stop": ["\x07"]}])
def test_the_parts_are_the_text_that_comes_whole_otherwise(client: TestClient, more: dict[str, Any]) -> None:
    response = client.post("/v1/generate", json={**ASKED, **more})
    assert response.headers["content-type"].startswith("text/event-stream")
    *parts, last = events(response.text)
    whole = client.post("/v1/generate", json={**ASKED, **more, "stream": False}).json()["results"][0]
    assert last["result"] == whole
    assert "".join(part["part"] for part in parts) == whole["text"]
    assert len(parts) >= 2 or more


def test_what_fails_before_the_first_word_has_its_own_status(loaded: dict[str, Any]) -> None:
    guard = make_app({"language": loaded["language"]}, Limits(seconds=0.3))
    with paused(guard, "language"):
        response = TestClient(guard).post("/v1/generate", json=ASKED)
    assert response.status_code == 504
    assert response.json()["error"]["type"] == "timeout"


def test_what_fails_later_is_the_last_event(loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(prompts: list[str], streamed: Any, **_: Any) -> None:
        streamed("the animal")
        raise RuntimeError("/secret/place")

    monkeypatch.setattr(loaded["language"], "generate", fail)
    response = TestClient(make_app({"language": loaded["language"]})).post("/v1/generate", json=ASKED)
    first, last = events(response.text)
    assert first == {"part": "the animal"}
    assert last["error"]["type"] == "internal"
    assert "secret" not in response.text


class Endless:
    """A text without an end, of which somebody counts the words."""

    def __init__(self, loaded: Any) -> None:
        self.loaded, self.steps, self.over = loaded, 0, threading.Event()

    def generate(self, prompts: list[str], streamed: Any, **_: Any) -> None:
        try:
            while self.steps < 100_000:
                self.steps += 1
                streamed("word ")
                self.loaded.generate("a", max_new_tokens=1)
        finally:
            self.over.set()


def read_some(guard: Guard, body: dict[str, Any], count: int) -> list[str]:
    """Post, and leave after so many parts."""
    parts: list[str] = []
    enough = asyncio.Event()
    whole = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Any:
        if whole:
            return whole.pop()
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            parts.append(message["body"].decode())
        if len(parts) >= count:
            enough.set()

    scope = {"type": "http", "method": "POST", "path": "/v1/generate", "query_string": b"", "scheme": "http"}
    scope |= {"headers": [(b"content-type", b"application/json")], "http_version": "1.1", "root_path": ""}
    asyncio.run(guard(scope, receive, send))
    return parts


def test_a_client_that_leaves_stops_the_model(loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    guard = make_app({"language": loaded["language"]})
    original = loaded["language"].generate
    endless = Endless(type("Plain", (), {"generate": staticmethod(original)}))
    monkeypatch.setattr(loaded["language"], "generate", endless.generate)
    assert len(read_some(guard, ASKED, 3)) >= 3
    assert endless.over.wait(60)
    assert endless.steps < 100_000
    assert guard.running == 0
    monkeypatch.undo()
    assert TestClient(guard).post("/v1/generate", json={**ASKED, "stream": False}).status_code == 200


def test_a_stream_that_takes_too_long_ends_with_a_word_on_it(
    loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = make_app({"language": loaded["language"]}, Limits(seconds=1.0))
    endless = Endless(type("Plain", (), {"generate": staticmethod(loaded["language"].generate)}))
    monkeypatch.setattr(loaded["language"], "generate", endless.generate)
    *parts, last = events(TestClient(guard).post("/v1/generate", json=ASKED).text)
    assert parts[0] == {"part": "word "}
    assert last["error"]["type"] == "timeout"
    assert endless.over.wait(60)
