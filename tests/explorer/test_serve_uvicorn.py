"""What the server uses of uvicorn without being promised it: a version that was tested, and the parts that are used."""

import inspect
import socket
import threading
import time
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol

from explorer.conftest import paused
from regard.explorer.app import make_app
from regard.explorer.server import Server
from regard.explorer.serving import listen

REMEDY = (
    f"uvicorn {version('uvicorn')} is not as src/regard/explorer/server.py and dawdlers.py expect it: adapt them, run "
    "tests/explorer/test_serve_hostile.py with it, then widen the range of uvicorn in pyproject.toml"
)


def test_this_version_of_uvicorn_was_tested() -> None:
    path = Path(__file__).parents[2] / "pyproject.toml"
    extra = tomllib.loads(path.read_text("utf-8"))["project"]["optional-dependencies"]["serve"]
    (wanted,) = [found for found in map(Requirement, extra) if found.name == "uvicorn"]
    assert {each.operator for each in wanted.specifier} == {">=", "<"}, "pin uvicorn from below and from above"
    assert wanted.specifier.contains(version("uvicorn")), REMEDY


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (uvicorn.Server.handle_exit, ["self", "sig", "frame"]),
        (uvicorn.Server.on_tick, ["self", "counter"]),
        (H11Protocol.connection_made, ["self", "transport"]),
    ],
)
def test_the_methods_that_are_overridden_have_their_parameters(method: Any, parameters: list[str]) -> None:
    assert list(inspect.signature(method).parameters) == parameters, REMEDY
    assert inspect.iscoroutinefunction(uvicorn.Server.on_tick), REMEDY


def test_connections_have_the_parts_that_are_read(loaded: dict[str, Any]) -> None:
    guard = make_app({"tagger": loaded["tagger"]})
    server, opened = Server(guard), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    with socket.socket() as caller:
        thread.start()
        try:
            caller.connect(opened.getsockname())
            connection = the_only(server)
            assert {"transport", "cycle", "connections"} <= set(vars(connection)), REMEDY
            assert connection.cycle is None, REMEDY
            assert connection.connections is server.server_state.connections, REMEDY
            with paused(guard, "tagger"):
                body = b'{"texts": "a man"}'
                head = "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                wait_for(lambda: guard.running == 1)
                assert connection.cycle.response_complete is False, REMEDY
            assert caller.recv(65536).startswith(b"HTTP/1.1 200 ")
            wait_for(lambda: connection.cycle.response_complete)
            assert connection.transport.get_write_buffer_size() == 0, REMEDY
        finally:
            server.handle_exit(15, None)
            thread.join(60)


def the_only(server: Server) -> Any:
    wait_for(lambda: server.server_state.connections)
    (connection,) = server.server_state.connections
    return connection


def wait_for(condition: Any) -> None:
    over = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < over, REMEDY
        time.sleep(0.02)
