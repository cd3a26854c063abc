"""Requests are done together, and nobody notices: not in the results, not when another one fails or leaves."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from torch import nn

from explorer.conftest import paused
from explorer.tiny_models import SENTENCES, encoded
from regard.explorer import worker as module
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.limits import Limits
from regard.explorer.meters import Meters
from regard.explorer.worker import Abandoned, Work, Worker

BODIES: dict[str, list[dict[str, Any]]] = {
    "translate": [dict(model="translator", texts=text, max_new_tokens=6) for text in SENTENCES],
    "generate": [dict(model="language", prompts=text[:9], max_new_tokens=6) for text in SENTENCES],
    "fill": [dict(model="filler", texts=f"[MASK] {text}") for text in SENTENCES],
    "classify": [dict(model="documents", texts=[text, "a man. a dog"]) for text in SENTENCES],
    "tag": [dict(model="tagger", texts=text) for text in SENTENCES],
    "embed": [dict(model="embedder", texts=text) for text in SENTENCES],
    "caption": [dict(model="captioner", images=encoded(seed)) for seed in range(4)],
}


def ask(client: TestClient, verb: str, body: dict[str, Any]) -> Any:
    return client.post(f"/v1/{verb}", json=body)


def numbers_aside(value: Any) -> Any:
    """Texts and labels as they are, numbers within float tolerance."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-5)
    if isinstance(value, dict):
        return {key: numbers_aside(each) for key, each in value.items()}
    return [numbers_aside(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("verb", BODIES)
def test_together_they_get_what_each_would_get_alone(loaded: dict[str, Any], verb: str) -> None:
    bodies = BODIES[verb]
    name = bodies[0]["model"]
    guard = make_app({name: loaded[name]})
    client = TestClient(guard)
    alone = [ask(client, verb, body).json() for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        with paused(guard, name):
            answers = [pool.submit(ask, client, verb, body) for body in bodies]
            wait_for(lambda: f'queue_length{{model="{name}"}} {len(bodies)}' in guard.meters.text())
        together = [answer.result().json() for answer in answers]
    assert together == numbers_aside(alone)
    assert f'regard_batch_requests_bucket{{model="{name}",verb="{verb}",le="2"}} 4' in guard.meters.text()
    assert f'regard_batch_requests_count{{model="{name}",verb="{verb}"}} 5' in guard.meters.text()


def wait_for(true: Any) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_one_bad_request_fails_alone(guard: Guard, client: TestClient) -> None:
    bodies = [dict(model="filler", texts=text) for text in ("a [MASK]", "no gap", "the [MASK] did")]
    with ThreadPoolExecutor(3) as pool:
        with paused(guard, "filler"):
            answers = [pool.submit(ask, client, "fill", body) for body in bodies]
            wait_for(lambda: 'queue_length{model="filler"} 3' in guard.meters.text())
        statuses = [answer.result().status_code for answer in answers]
    assert statuses == [200, 422, 200]


def test_draws_do_not_depend_on_company(guard: Guard, client: TestClient) -> None:
    body = dict(model="language", prompts="a man", do_sample=True, seed=1, max_new_tokens=8)
    alone = ask(client, "generate", body).json()
    with ThreadPoolExecutor(3) as pool:
        with paused(guard, "language"):
            answers = [pool.submit(ask, client, "generate", body) for _ in range(3)]
            wait_for(lambda: 'queue_length{model="language"} 3' in guard.meters.text())
        assert [answer.result().json() for answer in answers] == [alone] * 3


# The worker by itself


class Doubling:
    """Counts how it is called."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, items: list[Any]) -> list[Any]:
        self.calls.append(items)
        self.begun.set()
        assert self.go.wait(60)
        return [2 * item for item in items]


@pytest.fixture
def worker() -> Any:
    worker = Worker("test", nn.Linear(1, 1), Meters())
    yield worker
    worker.close()


def busy(worker: Worker) -> Doubling:
    """A call that holds the worker until told to go on."""
    call = Doubling()
    worker.submit(Work(call, [0]))
    assert call.begun.wait(60)
    return call


def results(*futures: "Future[list[Any]]") -> list[list[Any]]:
    return [future.result(60) for future in futures]


def test_only_what_has_the_same_key_is_done_together(worker: Worker) -> None:
    call = busy(worker)
    keys = ["a", "b", "a", None, None, "a"]
    futures = [worker.submit(Work(call, [number], key=key)) for number, key in enumerate(keys, 1)]
    call.go.set()
    assert results(*futures) == [[2], [4], [6], [8], [10], [12]]
    assert call.calls == [[0], [1, 3, 6], [2], [4], [5]]


def test_a_batch_keeps_to_its_budget(worker: Worker) -> None:
    call = busy(worker)
    half = module.BATCH_COST // 2
    futures = [worker.submit(Work(call, [number], cost=half, key="a")) for number in range(1, 6)]
    futures.append(worker.submit(Work(call, [9], cost=10 * half, key="a")))
    call.go.set()
    results(*futures)
    assert call.calls == [[0], [1, 2], [3, 4], [5], [9]]


def test_what_arrives_within_a_few_milliseconds_is_gathered(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHERING", 5.0)
    call = Doubling()
    call.go.set()
    small = worker.submit(Work(call, [1], key="a"))
    filling = worker.submit(Work(call, [2], cost=module.BATCH_COST - 1, key="a"))
    assert results(small, filling) == [[2], [4]]  # a full batch does not wait any longer
    assert call.calls == [[1, 2]]


def test_what_nobody_awaits_is_not_begun_and_what_is_begun_stops_before_the_next_layer() -> None:
    layers = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    worker = Worker("test", layers, Meters())
    begun, go = threading.Event(), threading.Event()
    reached = []
    layers[0].register_forward_hook(lambda *_: (begun.set(), go.wait(60), None)[-1])
    layers[2].register_forward_hook(lambda *_: reached.append(2))

    def run(items: list[Any]) -> list[Any]:
        layers(torch.zeros(1, 1))
        return items

    running, waiting = Work(run, [1], key="a"), Work(run, [2], key="b")
    worker.submit(running)
    worker.submit(waiting)
    assert begun.wait(60)
    running.abandoned = waiting.abandoned = True
    go.set()
    with pytest.raises(Abandoned):
        running.future.result(60)
    assert reached == []
    final = worker.submit(Work(lambda items: items, [3]))
    assert final.result(60) == [3]
    assert not waiting.future.done()
    worker.close()


def test_a_batch_goes_on_for_those_who_still_wait(worker: Worker) -> None:
    call = busy(worker)
    left, stays = Work(call, [1], key="a"), Work(call, [2], key="a")
    futures = [worker.submit(left), worker.submit(stays)]
    left.abandoned = True
    call.go.set()
    assert results(futures[1]) == [[4]]


# Time and room


def test_an_answer_that_takes_too_long_is_504_and_nobody_works_for_it_later(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]}, Limits(seconds=0.3))
    client = TestClient(guard)
    with paused(guard, "tagger"):
        response = ask(client, "tag", dict(texts="a man"))
    assert response.status_code == 504
    assert response.json()["error"]["type"] == "timeout"
    assert guard.running == 0


def test_a_full_house_says_429_and_when_to_come_back(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]}, Limits(concurrent=2))
    client = TestClient(guard)
    with ThreadPoolExecutor(2) as pool:
        with paused(guard, "tagger"):
            answers = [pool.submit(ask, client, "tag", dict(texts="a man")) for _ in range(2)]
            wait_for(lambda: guard.running == 2)
            refused = ask(client, "tag", dict(texts="a man"))
            assert client.get("/health").status_code == 200
        assert [answer.result().status_code for answer in answers] == [200, 200]
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert ask(client, "tag", dict(texts="a man")).status_code == 200
