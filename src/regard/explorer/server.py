"""uvicorn, with manners: it leaves in good order, and waits for nobody for ever.

`on_tick`, `handle_exit`, `server_state` and the protocol's class are not promised by uvicorn: see `dawdlers.py`.
"""

import asyncio
import time
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.explorer.dawdlers import HEAD_SECONDS, Dawdlers
from regard.explorer.guard import Guard

GRACE = 5  # seconds for connections to close when all is done
CONNECTIONS = 8  # for each request that may be in work: most connections only wait between two requests


class Server(uvicorn.Server):
    """One that says 503 to new requests while the last ones finish."""

    def __init__(self, guard: Guard, head_seconds: float = HEAD_SECONDS):
        dawdlers = Dawdlers(head_seconds, guard.limits.seconds, CONNECTIONS * guard.limits.concurrent)

        class Connection(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:
                super().connection_made(transport)
                dawdlers.make_room(self, self.connections)

        config = uvicorn.Config(
            guard,
            http=Connection,  # h11 bounds the head of a request, where httptools does not
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here hangs on what a proxy says of its clients
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self.guard, self.dawdlers = guard, dawdlers

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.guard.draining:
            self.should_exit = self.force_exit = True
        self.guard.draining = True

    async def on_tick(self, counter: int) -> bool:
        self.dawdlers.see(list(self.server_state.connections), time.monotonic())
        if self.guard.draining and not self.guard.running:
            self.should_exit = True
        return await super().on_tick(counter)
