"""One server with all tiny models for every test here; nobody may change it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from explorer.tiny_models import everything
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.worker import Work

Pause = Callable[..., AbstractContextManager[None]]


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return everything(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def guard(loaded: dict[str, Any]) -> Guard:
    return make_app(loaded)


@pytest.fixture(scope="session")
def client(guard: Guard) -> TestClient:
    return TestClient(guard)


@contextmanager
def paused(guard: Any, name: str) -> Iterator[None]:
    """A model that is busy as long as the block lasts."""
    worker = guard.app.state.shelf.models[name].worker
    begun, over = threading.Event(), threading.Event()

    def call(items: list[Any]) -> list[Any]:
        begun.set()
        assert over.wait(60)
        return items

    worker.submit(Work(call, [None]))
    assert begun.wait(60)
    try:
        yield
    finally:
        over.set()
