"""Tokens of every request are counted and checked before any memory is asked for."""

from copy import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from explorer.tiny_models import encoded, memory
from regard.decoding.settings import Decoding
from regard.explorer.app import make_app
from regard.explorer.limits import Limits
from regard.tasks import algorithm_runner

EPISODES = {
    "copy": ["copy:9999", "2048", "copy:9999x9999", "9999x1", "9999x9999"],
    "repeat-copy": ["repeat-copy:9999x9999", "9999x9999", "64x64", "1x4094", "4095x1"],
    "recall": ["recall:9999", "1023"],
}


@pytest.mark.parametrize("name", EPISODES)
def test_an_episode_of_too_many_steps_is_refused_before_it_is_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(make_app({"memory": memory(name)}))
    shortest = client.post("/v1/look", json={"text": f"{name}:2"})
    assert shortest.status_code == 200, shortest.text

    def draw(*_: Any) -> None:
        raise AssertionError("an episode was drawn")

    monkeypatch.setattr(algorithm_runner, "held_out", draw)
    for text in EPISODES[name]:
        answer = client.post("/v1/look", json={"text": text})
        assert answer.status_code == 413, (text, answer.text)
        assert "tokens, but at most 4,096 are read" in answer.json()["error"]["message"]
    for text in ("0", "copy:0", "x" * 100_000, f"{name}:1x0"):
        assert client.post("/v1/look", json={"text": text}).status_code == 422


def test_the_longest_episode_that_is_read_has_as_many_steps_as_the_limit() -> None:
    client = TestClient(make_app({"memory": memory("copy")}, Limits(tokens=41)))
    assert client.post("/v1/look", json={"text": "copy:20"}).status_code == 200
    assert client.post("/v1/look", json={"text": "copy:21"}).status_code == 413


def look(client: TestClient, **given: Any) -> dict[str, Any]:
    answer = client.post("/v1/look", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["language", "translator", "captioner"])
def test_token_ids_that_the_vocabulary_does_not_have_are_refused(
    client: TestClient, loaded: dict[str, Any], name: str
) -> None:
    given = {"image": encoded()} if name == "captioner" else {"text": "the cat"}
    told = look(client, model=name, **given)
    path = {"session": told["session"], "attention": told["attentions"][-1]["name"]}
    size = len(loaded[name].tokenizer)
    for tokens in ([size], [1, size, 1], [2**31, 1], [1, 2, size + 1000]):
        for answer in (
            client.post("/v1/look/alignment", json={**path, "tokens": tokens}),
            client.post("/v1/look", json={"model": name, **given, "forced": tokens}),
        ):
            assert answer.status_code == 422, (tokens, answer.text)
            assert f"but the vocabulary has {size} tokens, from 0" in answer.json()["error"]["message"]
    assert client.post("/v1/look/alignment", json={**path, "tokens": [size - 1, 0]}).status_code == 200


def test_a_path_has_as_many_tokens_as_the_model_sees_at_once(client: TestClient, loaded: dict[str, Any]) -> None:
    told, room = look(client, model="language", text="the cat"), loaded["language"].model.context
    longest = room - len(loaded["language"].begin("the cat").tokens) + 1  # the last of them is what is chosen
    path = {"session": told["session"], "attention": told["attentions"][-1]["name"]}
    fits = client.post("/v1/look/alignment", json={**path, "tokens": [1] * longest})
    assert len(fits.json()["weights"]) == len(fits.json()["keys"]) == room
    more = client.post("/v1/look/alignment", json={**path, "tokens": [1] * (longest + 1)})
    assert (more.status_code, f"the model sees {room} of them at once" in more.text) == (422, True)


def test_forced_tokens_are_for_models_with_a_vocabulary(client: TestClient) -> None:
    answer = client.post("/v1/look", json={"model": "vision", "image": encoded(), "forced": [0]})
    assert (answer.status_code, "the vocabulary has 0 tokens" in answer.text) == (422, True)


def test_lines_and_paths_and_searches_have_the_limit_of_every_request(loaded: dict[str, Any]) -> None:
    client = TestClient(make_app({"language": loaded["language"]}, Limits(tokens=30)))
    told = look(client, text="the cat", more=4)
    name = told["attentions"][0]["name"]
    for path, body in (
        ("importance", {"attention": name, "lines": ["the cat sat"] * 30}),
        ("importance", {"attention": name, "lines": ["the cat sat on the mat and saw the other cats " * 4]}),
        ("alignment", {"attention": name, "tokens": [1] * 31}),
        ("beam", {"num_beams": 2, "max_new_tokens": 31}),
    ):
        answer = client.post(f"/v1/look/{path}", json={"session": told["session"], **body})
        assert answer.status_code == 413, (path, answer.text)
        assert "but at most 30 are" in answer.json()["error"]["message"]
    few = client.post("/v1/look/importance", json={"session": told["session"], "attention": name, "lines": ["a cat"]})
    assert few.status_code == 200, few.text
    for body in ({"text": "the cat", "forced": [1] * 31}, {"text": "the cat", "more": 31}):
        assert client.post("/v1/look", json=body).status_code == 413


def test_text_for_a_model_without_a_tokenizer_is_bounded_too(client: TestClient) -> None:
    answer = client.post("/v1/look", json={"model": "vision", "image": encoded(), "text": "x" * 200_000})
    assert (answer.status_code, "200,000 characters" in answer.text) == (413, True)


def test_what_a_translation_may_become_is_counted_if_nothing_is_asked_for(loaded: dict[str, Any]) -> None:
    translator = copy(loaded["translator"])
    translator.decoding = Decoding(num_beams=2)  # which does not say how long a translation may be
    client = TestClient(make_app({"translator": translator}, Limits(tokens=100)))
    texts = ["a"] * 16  # and of each at most 12 tokens
    assert client.post("/v1/translate", json={"texts": texts, "num_beams": 16}).status_code == 200
    answer = client.post("/v1/translate", json={"texts": texts, "num_beams": 17})
    assert answer.status_code == 413
    assert "16 texts with 17 beams of 12 tokens each are 3,264 tokens" in answer.json()["error"]["message"]
