"""uvicorn, with manners: it leaves in good order, and waits for nobody for ever."""

import time
from types import FrameType

import uvicorn

from regard.explorer.dawdlers import HEAD_SECONDS, Dawdlers
from regard.explorer.guard import Guard

GRACE = 5  # seconds for connections to close when all is done


class Server(uvicorn.Server):
    """One that says 503 to new requests while the last ones finish."""

    def __init__(self, guard: Guard, head_seconds: float = HEAD_SECONDS):
        config = uvicorn.Config(
            guard,
            http="h11",  # it bounds the head of a request, where httptools does not
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self.guard = guard
        self.dawdlers = Dawdlers(head_seconds, guard.limits.seconds)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.guard.draining:
            self.should_exit = self.force_exit = True
        self.guard.draining = True

    async def on_tick(self, counter: int) -> bool:
        self.dawdlers.see(list(self.server_state.connections), time.monotonic())
        if self.guard.draining and not self.guard.running:
            self.should_exit = True
        return await super().on_tick(counter)
