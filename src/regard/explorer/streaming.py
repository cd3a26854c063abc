"""Text that is sent while it is made: server-sent events from the model's thread to the client.

    data: {"part": "Once upon"}
    data: {"part": " a time"}
    data: {"result": {"prompt": "Once", "text": "Once upon a time", "score": -0.7, ...}}

The parts together are the text of the result. What goes wrong on the way is `data: {"error": {...}}`. A client that
leaves stops the model.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from regard.explorer import schemas
from regard.explorer.limits import Limits
from regard.explorer.refusals import Refusal, explained
from regard.explorer.verbs import generate, generated, search_options
from regard.explorer.worker import Work, Worker
from regard.tasks.language_verbs import LanguageModel

Event = dict[str, Any] | BaseException


def streamed(model: LanguageModel, asked: schemas.Generate, limits: Limits, tell: Any) -> Work:
    """The work of making one text, of which `tell` hears every part."""
    if len(asked.prompts) != 1 or asked.num_return_sequences != 1:
        raise Refusal(422, "only a single text can be streamed: give one prompt, and ask for one text")
    plain = generate(model, asked, limits)
    options = search_options(model, asked, limits, "prompts", "stream")

    def call(prompts: list[str]) -> list[schemas.Generated]:
        def hear(part: str) -> None:
            if part:
                tell({"part": part})

        return [generated(model.generate(prompts, **options, streamed=hear)[0])]

    return Work(call, plain.items, plain.cost)


class Stream:
    """From a model's thread to the event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[Event] = asyncio.Queue()

    def tell(self, event: Event) -> None:
        """From any thread."""
        self.loop.call_soon_threadsafe(self.events.put_nowait, event)

    async def response(self, worker: Worker, work: Work, seconds: float) -> StreamingResponse:
        """The reply, begun when the first part is there: what fails before has a status of its own."""
        deadline = self.loop.time() + seconds
        worker.submit(work).add_done_callback(lambda done: self.tell(self._end(done)))
        first = await self._next(work, deadline)
        if isinstance(first, BaseException):
            raise first
        headers = {"X-Accel-Buffering": "no"}  # a proxy should pass each part on
        return StreamingResponse(self._lines(first, work, deadline), media_type="text/event-stream", headers=headers)

    def _end(self, done: Any) -> Event:
        error = done.exception()
        return error if error is not None else {"result": done.result()[0].model_dump()}

    async def _next(self, work: Work, deadline: float) -> Event:
        try:
            async with asyncio.timeout_at(deadline):
                return await self.events.get()
        except TimeoutError:
            work.abandoned = True
            return Refusal(504, "the text took too long; ask for fewer tokens")
        except asyncio.CancelledError:
            work.abandoned = True
            raise

    async def _lines(self, event: Event, work: Work, deadline: float) -> AsyncIterator[str]:
        try:
            while True:
                if isinstance(event, BaseException):
                    yield line(explained(event).fault())
                    return
                yield line(event)
                if "result" in event:
                    return
                event = await self._next(work, deadline)
        finally:
            work.abandoned = True  # the client may have left


def line(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
