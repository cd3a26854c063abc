"""What stands before the application: who may come in, how much they may bring and how long that may take, and when the
house is full or closing.

Nothing of a request's body is read before it has passed here.
"""

import asyncio
import hmac
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.explorer.hosts import Hosts
from regard.explorer.limits import BODY_SECONDS, MEGABYTE, Limits
from regard.explorer.meters import Meters
from regard.explorer.refusals import Refusal, later

LONGEST_NAME = 100  # characters of a wrong name that are repeated
HEAD = 64 << 10  # bytes; h11 bounds only what comes in pieces
HEALTH, METRICS, API = "/health", "/metrics", "/v1/"
WATCHED = (HEALTH, METRICS)  # small, and for those who look after the server when it is full
SAFE = {  # unless an answer says it better
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


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
        self.key, self.hosts = key, None if hosts is None else Hosts(hosts)
        self.running = 0  # requests that are worked on or wait
        self.reading = 0  # requests for pages and descriptions, which no model works on
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
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
                if self.draining:
                    headers["Connection"] = "close"
                if path.startswith(API):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        counts = scope["method"] == "POST"
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        try:
            self.check(path, Headers(scope=scope), counts, (scope.get("server") or [None])[0])
        except Refusal as refusal:
            await refusal.response()(scope, receive, answer)
        else:
            reads = not counts and path not in WATCHED
            self.running, self.reading = self.running + counts, self.reading + reads
            try:
                await self.app(scope, self.measured(receive), answer)
            finally:
                self.running, self.reading = self.running - counts, self.reading - reads
        finally:
            verb = path.removeprefix(API)
            known = verb in self.verbs and path.startswith(API)
            self.meters.request(verb if known else "other", status, time.monotonic() - started)

    def check(self, path: str, headers: Headers, counts: bool, address: str | None) -> None:
        """Refuse what is not to be let in; `address` is the one of ours that the client has reached."""
        if sum(len(name) + len(value) for name, value in headers.raw) + len(path) > HEAD:
            raise Refusal(431, f"the head of the request is larger than the {HEAD >> 10} kB that are read")
        if self.hosts is not None:
            self.check_names(self.hosts, headers, address)
        if self.key is not None and path.startswith((API, METRICS)) and not self.knows(headers):
            asks = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "the API key is missing or wrong; send Authorization: Bearer KEY", asks)
        if self.draining and path != METRICS:
            raise later(503, "the server is about to stop")
        if counts and self.running >= self.limits.concurrent:
            raise later(429, f"{self.running} requests are in work already")
        if not counts and path not in WATCHED and self.reading >= self.limits.concurrent:
            raise later(429, f"{self.reading} pages are being sent already")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.limits.body:
            raise self.too_large()

    @staticmethod
    def check_names(hosts: Hosts, headers: Headers, address: str | None) -> None:
        """Refuse requests that a page from elsewhere has sent, or has led here."""
        host = headers.get("host", "")
        if not hosts.has(host, address):
            raise Refusal(403, f"this server is not called {host[:LONGEST_NAME]!r}; add --allowed-host if it should be")
        if "origin" in headers and not hosts.has_page(headers["origin"], host, address):
            raise Refusal(403, "this server answers to its own page only, not to a page from elsewhere")

    def knows(self, headers: Headers) -> bool:
        said = headers.get("authorization", "")
        key = said[7:] if said[:7].lower() == "bearer " else headers.get("x-api-key", "")
        sent = key.strip(" \t").encode("latin-1")  # the very bytes: that is how headers are read
        return hmac.compare_digest(sent, (self.key or "").encode("utf-8"))

    def measured(self, receive: Receive) -> Receive:
        """The same, for bodies that do not say how long they are, or take their time."""
        total, is_whole = 0, False
        seconds = min(BODY_SECONDS, self.limits.seconds)
        over = asyncio.get_running_loop().time() + seconds

        async def counting() -> Message:
            nonlocal total, is_whole
            try:
                async with asyncio.timeout_at(None if is_whole else over):
                    message = await receive()
            except TimeoutError:
                raise Refusal(408, f"the body did not arrive within {seconds:g} s") from None
            total += len(message.get("body", b""))
            if total > self.limits.body:
                raise self.too_large()
            is_whole = not message.get("more_body", False)
            return message

        return counting

    def too_large(self) -> Refusal:
        return Refusal(413, f"the body is larger than the {self.limits.body / MEGABYTE:g} MB that are read; send less")
