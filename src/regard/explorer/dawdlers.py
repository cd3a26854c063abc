"""Clients that dawdle: a head that trickles in, or an answer that nobody takes, must not hold a connection for ever.

(A body that trickles in is `guard.py`'s: it can still be answered.)
"""

from collections.abc import Iterable
from typing import Any

HEAD_SECONDS = 10.0  # from the beginning of a connection, or the last answer on it, to the end of a request's head


class Dawdlers:
    """Told now and then which connections there are; it breaks off those on which nothing came of it for too long."""

    def __init__(self, head: float, answer: float):
        self.seconds = {"asking": head, "taking": answer}
        self._since: dict[Any, tuple[Any, float]] = {}

    def see(self, connections: Iterable[Any], now: float) -> None:
        """`connections` are protocols of uvicorn."""
        known: dict[Any, tuple[Any, float]] = {}
        for connection in connections:
            what = doing(connection)
            before, since = self._since.get(connection, (what, now))
            known[connection] = what, since if before == what else now
            if now - known[connection][1] > self.seconds.get(what[0], float("inf")):
                connection.transport.abort()
        self._since = known


def doing(connection: Any) -> tuple[str, Any]:
    """What a client is about: taking an answer, asking for something new, or waiting for us."""
    if connection.transport.get_write_buffer_size():
        return "taking", None
    cycle = connection.cycle  # the last request and its answer
    return ("asking", cycle) if cycle is None or cycle.response_complete else ("waiting", None)
