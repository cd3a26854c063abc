"""Clients that nobody invited, for `serve_soak.py`: malformed, oversized and slow requests, and what each must hear.

Every trick is a few bytes on a bare connection. It ends with the status of the answer, or with `closed` when the server
has hung up without a word, or `left` when it is the client who does. A 5xx is never allowed.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST = 90.0  # seconds after which a trick is `hung`: the server should have ended it long before
PAUSE = 0.1  # between two tricks of one stranger
SLOW = 0.5  # seconds per byte


@dataclass(frozen=True)
class Trick:
    """What is sent, byte by byte if it is `slow`, and what may come of it."""

    content: Callable[[str], bytes]  # of the verb that is served
    allowed: tuple[str, ...]
    slow: bytes = b""  # sent afterwards, one byte at a time
    leaves: bool = False  # without waiting for an answer


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode("latin-1")


def post(path: str, body: bytes, kind: str = "application/json", length: int | None = None) -> bytes:
    return head(path, f"Content-Type: {kind}", f"Content-Length: {len(body) if length is None else length}") + body


def chunks(path: str, *bodies: bytes) -> bytes:
    told = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    return head(path, "Content-Type: application/json", "Transfer-Encoding: chunked") + told + b"0\r\n\r\n"


def said(**fields: object) -> Callable[[str], bytes]:
    return lambda verb: post(f"/v1/{verb}", json.dumps(fields).encode())


def body(content: bytes, kind: str = "application/json") -> Callable[[str], bytes]:
    return lambda verb: post(f"/v1/{verb}", content, kind)


def plain(content: bytes) -> Callable[[str], bytes]:
    return lambda verb: content


TRICKS: dict[str, Trick] = {
    # malformed
    "broken JSON": Trick(body(b'{"texts": "a'), ("400",)),
    "deep JSON": Trick(body(b"[" * 50_000), ("400",)),
    "not UTF-8": Trick(body(b'{"texts": "\xff"}'), ("400",)),
    "half a surrogate pair": Trick(body(b'{"texts": "\\ud800"}'), ("400",)),
    "a number without an end": Trick(body(b'{"seed": 1' + b"0" * 100_000 + b"}"), ("400", "422")),
    "another kind of content": Trick(body(b"texts=a", "application/x-www-form-urlencoded"), ("415",)),
    "a broken form": Trick(body(b"nonsense", "multipart/form-data; boundary=x"), ("400",)),
    "an unknown field": Trick(said(texts="a", prompts="a", nonsense=1), ("422",)),
    "an unknown model": Trick(said(model="../../etc/passwd", texts="a", prompts="a"), ("404", "422")),
    "an unknown place": Trick(plain(head("/v1/../../etc/passwd", "Content-Length: 0")), ("404",)),
    "an unknown method": Trick(plain(head("/v1/models", method="BREW")), ("405",)),
    "another name": Trick(plain(b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"), ("403",)),
    "a page from elsewhere": Trick(plain(head("/v1/models", "Origin: http://evil.example", method="GET")), ("403",)),
    "noise": Trick(plain(bytes(range(256)) * 8), ("400",)),
    "another protocol": Trick(plain(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + bytes(500)), ("400",)),
    "two lengths": Trick(plain(head("/health", "Content-Length: 5", "Content-Length: 6") + b"hello!"), ("400",)),
    "an odd chunk": Trick(lambda verb: chunks(f"/v1/{verb}")[:-5] + b"zz\r\nhello\r\n", ("400",)),
    # oversized
    "a terabyte": Trick(lambda verb: post(f"/v1/{verb}", b"{", length=1 << 40), ("413",)),
    "chunks without an end": Trick(lambda verb: chunks(f"/v1/{verb}", *[b" " * (1 << 20)] * 11), ("413",)),
    "many texts": Trick(said(texts=["a"] * 300, prompts=["a"] * 300), ("422",)),
    "a long line": Trick(lambda verb: long_text(verb, "word " * 40_000), ("413",)),
    "many tokens": Trick(lambda verb: long_text(verb, "a b " * 10_000), ("413",)),
    "a long head": Trick(plain(head("/health", "X-Long: " + "x" * 100_000, method="GET")), ("400", "431", "closed")),
    # slow
    "a head that trickles in": Trick(plain(b"GET /health HTTP/1.1\r\nX-Slow: "), ("closed",), slow=b"x" * 1000),
    "a silent line": Trick(plain(b""), ("closed",)),
    "a body that trickles in": Trick(lambda verb: post(f"/v1/{verb}", b"{", length=1000), ("408",), slow=b" " * 999),
    "half a body": Trick(lambda verb: post(f"/v1/{verb}", b"{", length=1000), ("left",), leaves=True),
    "no patience": Trick(lambda verb: long_text(verb, "a man "), ("left",), leaves=True),
    "no ears": Trick(plain(head("/explorer.js", method="GET") * 50), ("left",), leaves=True),
}


DAWDLING = ("a body that trickles in", "a body that trickles in", "a head that trickles in", "a silent line", "no ears")


def long_text(verb: str, text: str) -> bytes:
    field = "prompts" if verb == "generate" else "texts"
    return post(f"/v1/{verb}", json.dumps({field: "[MASK] " * (verb == "fill") + text}).encode())


async def stranger(place: str, verb: str, number: int, heard: "Counter[tuple[str, str]]") -> None:
    """One trick after the other, for ever, in an order of its own."""
    draws = random.Random(number)
    while True:
        name = draws.choice(list(TRICKS))
        heard[name, await outcome(place, verb, TRICKS[name])] += 1
        await asyncio.sleep(PAUSE)


async def outcome(place: str, verb: str, trick: Trick) -> str:
    try:
        async with asyncio.timeout(LONGEST):
            return await _tried(place, verb, trick)
    except TimeoutError:
        return "hung"
    except OSError:
        return "closed"


async def _tried(place: str, verb: str, trick: Trick) -> str:
    parts = urlsplit(place)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    sending = asyncio.create_task(_send(writer, trick, verb))
    try:
        if trick.leaves:
            await sending
            await asyncio.sleep(1)
            return "left"
        line = await reader.readline()
        return line.split()[1].decode() if line.startswith(b"HTTP/1.1 ") else "closed"
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await sending
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _send(writer: asyncio.StreamWriter, trick: Trick, verb: str) -> None:
    with suppress(OSError):  # a server that has heard enough may hang up
        async for part in _parts(trick, verb):
            writer.write(part)
            await writer.drain()


async def _parts(trick: Trick, verb: str) -> AsyncIterator[bytes]:
    yield trick.content(verb)
    for byte in trick.slow:
        await asyncio.sleep(SLOW)
        yield bytes([byte])


def surprises(heard: "Counter[tuple[str, str]]") -> dict[str, int]:
    """What should not have happened."""
    return {
        f"{name}: {came}": count for (name, came), count in heard.items() if came not in (*TRICKS[name].allowed, "429")
    }
