"""One spoilt request after the other for an endpoint of the server, and what is wrong with an answer.

The server and its tiny models are in this process, which speaks ASGI with them: nothing lies between a case and the
code it runs. `running.py` starts the processes and notes what became of them.
"""

import asyncio
import gc
import json
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fuzz.requests import VERBS, Request, dumped, examples_of, json_request, spoilt_request
from fuzz.running import Clock, Journal, limit_memory, place_of
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.limits import MEGABYTE, Limits
from regard.explorer.meters import resident_bytes
from regard.explorer.refusals import LONGEST

SECONDS = 5.0  # until an answer; the server itself then says 504
TOKENS = 256  # of a request: with the tiny models here, all that may be asked for is there in time
GROWTH = 256 * MEGABYTE  # that the process may grow by after its first cases: sessions, and what allocators keep
WARM = 150  # cases after which the growth is measured


def serve(models: dict[str, Any], seconds: float = SECONDS) -> Guard:
    """The server around these models."""
    return make_app(models, Limits(tokens=TOKENS, seconds=seconds, body=MEGABYTE))


class Bench:
    """A server, the examples of one endpoint of it, and a way to ask."""

    def __init__(self, endpoint: str, guard: Guard):
        self.endpoint, self.guard, self.seconds = endpoint, guard, guard.limits.seconds
        self.runner = asyncio.Runner()
        self.error: BaseException | None = None
        self.examples = examples_of(endpoint, self.ask)
        self.others = [body for bodies in VERBS.values() for body in bodies]

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()

    def check_examples(self) -> None:
        """An example that is refused as it is would prove nothing. (Questions were asked already.)"""
        if not self.examples:
            raise ValueError(f"there is no example of {self.endpoint} that is answered")
        for body in self.examples if self.endpoint in VERBS else []:
            status, _, content = self.ask(json_request(f"/v1/{self.endpoint}", dumped(body)))
            if status != 200:
                raise ValueError(f"the example {body} is refused: {content[:300]!r}")

    def request(self, seed: int, number: int) -> Request:
        draw = Random(f"{self.endpoint} {seed} {number}")
        return spoilt_request(draw, f"/v1/{self.endpoint}", draw.choice(self.examples), self.others)

    def case(self, seed: int, number: int) -> str | None:
        """Send one request: None if it was answered, "" if it was refused as it should be, else what went wrong."""
        request = self.request(seed, number)
        try:
            status, headers, content = self.ask(request)
        except Exception as error:
            return f"no answer: {type(error).__name__}: {error}"
        return fault_of(status, headers, content, self.error) or (None if status == 200 else "")

    def ask(self, request: Request) -> tuple[int, dict[bytes, bytes], bytes]:
        self.error = None
        return self.runner.run(asyncio.wait_for(self._ask(request), 3 * self.seconds))

    async def _ask(self, request: Request) -> tuple[int, dict[bytes, bytes], bytes]:
        sent: list[dict[str, Any]] = []
        unread = [{"type": "http.request", "body": request.content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not unread:
                await asyncio.Event().wait()  # a client that stays
            return unread.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", request.media)]
        scope = {"type": "http", "method": "POST", "path": request.path, "headers": headers, "query_string": b""}
        scope |= {"http_version": "1.1", "scheme": "http", "root_path": "", "asgi": {"version": "3.0"}}
        try:
            await self.guard(scope, receive, send)
        except Exception as error:  # the answer has been sent; the server's log would hear this
            self.error = error
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), content


def fault_of(status: int, headers: dict[bytes, bytes], content: bytes, error: BaseException | None) -> str:
    """What is wrong with an answer; "" if nothing is."""
    if status >= 500 or error is not None:
        return f"{status}: {where(error) if error is not None else content[:200].decode('utf-8', 'replace')}"
    media = headers.get(b"content-type", b"")
    if status != 200:
        return fault_of_refusal(status, media, content)
    if media.startswith(b"text/event-stream") and b'"error": {"type": "internal"' in content:
        return f"an error in a stream: {content[-200:].decode('utf-8', 'replace')}"
    if media.startswith(b"application/json"):
        try:
            json.loads(content, parse_constant=refuse)
        except ValueError as damage:
            return f"an answer that is no JSON: {damage}"
    return ""


def fault_of_refusal(status: int, media: bytes, content: bytes) -> str:
    if status < 400 or not media.startswith(b"application/json"):
        return f"{status} with {media.decode('latin-1')}: {content[:200]!r}"
    message = json.loads(content)["error"]["message"]
    if not message.strip() or len(message.splitlines()) != 1 or len(message) > LONGEST + 3:
        return f"{status} with a message of {len(message)} characters: {message[:200]!r}"
    if "not enough memory" in message:
        return f"refused only when memory was short: {message[:200]!r}"
    if str(Path.cwd()) in message or tempfile.gettempdir() in message:
        return f"{status} with the name of a folder: {message[:200]!r}"
    return ""


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def where(error: BaseException) -> str:
    return f"{type(error).__name__}{place_of(error)}: {' '.join(str(error).split())[:200]}"


class Growth:
    """How much larger the process has become since its first cases."""

    def __init__(self, size: Callable[[], int | None] = resident_bytes):
        self.size, self.done, self.first = size, 0, 0

    def fault(self) -> str:
        """What is wrong with it after one more case; "" if nothing is. A growth is told once, then measured anew."""
        self.done += 1
        now = self.size() or 0
        if self.done <= WARM:
            self.first = max(self.first, now)
        elif now > self.first + GROWTH:
            gc.collect()
            grown, self.first = now - self.first, now
            return f"the process has grown by {grown / MEGABYTE:.0f} MB"
        return ""


def work(bench: Bench, seed: int, first: int, last: int, journal: Path) -> None:
    """Run cases; each fault is a line of the output. Dies of a crash or a hang."""
    log, growth = Journal(journal), Growth()
    bench.check_examples()
    limit_memory()
    for number in range(first, last):
        _, answered, refused, faulty, slowest, longest = log.read()
        log.write((number, answered, refused, faulty, slowest, longest))
        clock = Clock(int(3 * bench.seconds))
        clock.start()
        found = bench.case(seed, number)
        took = int(clock.seconds() * 1e6)
        found = found or growth.fault() or found
        slowest, longest = (number, took) if took > longest else (slowest, longest)
        counted = (answered + (found is None), refused + (found == ""), faulty + bool(found))
        log.write((number, *counted, slowest, longest))
        if found:
            print(f"{number}\t{found}", flush=True)
    signal.alarm(0)
