"""What stands before the application: who may come in, how much they may bring, and when the house is full or closing.

Nothing of a request's body is read before it has passed here.
"""

import hmac
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.explorer.limits import MEGABYTE, Limits
from regard.explorer.meters import Meters
from regard.explorer.refusals import Refusal, busy

LOCAL = frozenset(["localhost", "127.0.0.1", "::1"])
HEALTH, METRICS, API = "/health", "/metrics", "/v1/"


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        meters: Meters,
        verbs: Collection[str],
        key: str | None = None,
        hosts: Collection[str] | None = None,
    ):
        self.app, self.limits, self.meters, self.verbs = app, limits, meters, verbs
        self.key, self.hosts = key, hosts
        self.running = 0  # requests that are worked on or wait
        self.draining = False
        meters.running = lambda: self.running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 499
        path: str = scope["path"]

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if self.draining:
                    headers["Connection"] = "close"
                if path.startswith(API):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        counts = scope["method"] == "POST"
        try:
            self.check(path, Headers(scope=scope), counts)
        except Refusal as refusal:
            await refusal.response()(scope, receive, answer)
        else:
            self.running += counts
            try:
                await self.app(scope, self.measured(receive), answer)
            finally:
                self.running -= counts
        finally:
            verb = path.removeprefix(API)
            known = verb in self.verbs and path.startswith(API)
            self.meters.request(verb if known else "other", status, time.monotonic() - started)

    def check(self, path: str, headers: Headers, counts: bool) -> None:
        """Refuse what is not to be let in."""
        if self.hosts is not None and host_of(headers) not in self.hosts:
            raise Refusal(403, "this server answers to localhost only; serve with --api-key-file to use another name")
        if self.key is not None and path.startswith((API, METRICS)) and not self.knows(headers):
            asks = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "the API key is missing or wrong; send Authorization: Bearer KEY", asks)
        if self.draining and path != METRICS:
            raise busy("the server is about to stop; ask again in a moment")
        if counts and self.running >= self.limits.concurrent:
            raise busy(f"{self.running} requests are in work already; ask again in a moment")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.limits.body:
            raise self.too_large()

    def knows(self, headers: Headers) -> bool:
        said = headers.get("authorization", "")
        key = said[7:] if said[:7].lower() == "bearer " else headers.get("x-api-key", "")
        return hmac.compare_digest(key.strip().encode("utf-8"), (self.key or "").encode("utf-8"))

    def measured(self, receive: Receive) -> Receive:
        """The same, for bodies that do not say how long they are."""
        total = 0

        async def counting() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self.limits.body:
                raise self.too_large()
            return message

        return counting

    def too_large(self) -> Refusal:
        return Refusal(413, f"the body is larger than the {self.limits.body / MEGABYTE:g} MB that are read; send less")


def host_of(headers: Headers) -> str:
    """The name a client thinks we have, without the port."""
    try:
        return (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    except ValueError:
        return ""
