"""Clients that dawdle: a head that trickles in, or an answer that nobody takes, must not hold a connection for ever;
and many clients that say nothing must not keep others out.

(A body that trickles in is `guard.py`'s: it can still be answered.)

What is read here of uvicorn's connections (`transport`, `cycle`, `response_complete`) is not promised by uvicorn. So
`pyproject.toml` has the range of versions that were tested, and tests/explorer/test_serve_uvicorn.py checks them.
"""

import time
from collections.abc import Collection
from typing import Any

HEAD_SECONDS = 10.0  # from the beginning of a connection, or the last answer on it, to the end of a request's head


class Dawdlers:
    """Breaks off connections on which nothing came for too long, and the oldest idle ones when there are too many."""

    def __init__(self, head: float, answer: float, most: int):
        self.seconds, self.most = {"asking": head, "taking": answer}, most
        self._since: dict[Any, tuple[Any, float]] = {}

    def see(self, connections: Collection[Any], now: float) -> None:
        """Called now and then with all connections, which are protocols of uvicorn."""
        known: dict[Any, tuple[Any, float]] = {}
        for connection in connections:
            what = doing(connection)
            before, since = self._since.get(connection, (what, now))
            known[connection] = what, since if before == what else now
            if now - known[connection][1] > self.seconds.get(what[0], float("inf")):
                connection.transport.abort()
        self._since = known

    def make_room(self, newest: Any, connections: Collection[Any]) -> None:
        """Called when a connection was made: of too many, the one is broken off that has asked for nothing for longest.

        If all others are being answered, that is the newest."""
        now = time.monotonic()
        self._since[newest] = doing(newest), now
        there = [each for each in connections if not each.transport.is_closing()]
        if len(there) > self.most:
            idle = [each for each in there if doing(each)[0] == "asking" and each is not newest]
            oldest = min(idle, key=lambda each: self._since.get(each, (None, now))[1], default=newest)
            oldest.transport.abort()


def doing(connection: Any) -> tuple[str, Any]:
    """What a client is about: taking an answer, asking for something new, or waiting for us."""
    if connection.transport.get_write_buffer_size():
        return "taking", None
    cycle = connection.cycle  # the last request and its answer
    return ("asking", cycle) if cycle is None or cycle.response_complete else ("waiting", None)
