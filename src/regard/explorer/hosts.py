"""The names by which the server may be called, and the web pages that may send it requests.

A page of a stranger that a browser shows can send requests to this machine, and can make its own name lead here (DNS
rebinding). Such a request bears a `Host` or an `Origin` that is not ours. A page of another program on this machine has
our name, but another port.
"""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from regard.errors import UsageError

LOCAL = frozenset(["localhost", "127.0.0.1", "::1"])
USUAL_PORTS = (80, 443)  # browsers leave these out
Authority = tuple[str, int | None]  # a name and its port; None is a usual one


class Hosts:
    """The names that are allowed. One that has a port allows the pages at that port too: those behind a proxy."""

    def __init__(self, allowed: Collection[str]):
        self.names = frozenset(named(each)[0] for each in allowed)
        self.pages = frozenset(authority(f"//{each}") for each in allowed if named(each)[1] is not None)

    def has(self, host: str, address: str | None = None) -> bool:
        """Whether a `Host` header names this server; the `address` that the client has reached is always allowed."""
        name, _ = authority(f"//{host}")
        return bool(name) and (name in self.names or name == address)

    def has_page(self, origin: str, host: str, address: str | None = None) -> bool:
        """Whether an `Origin` header is that of this server's own page: an allowed name, and the port of the `Host`."""
        name, port = authority(origin)
        if (name, port) in self.pages:
            return True
        return bool(name) and (name in self.names or name == address) and port == authority(f"//{host}")[1]


def named(allowed: str) -> Authority:
    """An allowed name as it is written on the command line, and its port if it has one."""
    try:
        return str(ipaddress.ip_address(allowed)), None
    except ValueError:
        name, _ = authority(f"//{allowed}")
    if not name or set(allowed) & set("/@?#*\\ "):
        raise UsageError(f"--allowed-host {allowed!r} is no name of a server: write models.example.org or NAME:PORT")
    return name, urlsplit(f"//{allowed}").port


def authority(address: str) -> Authority:
    """The name and the port of an address such as `http://localhost:8000` or `//localhost`; no name if it has none."""
    try:
        parts = urlsplit(address)
        name, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None
    return name, None if port in USUAL_PORTS else port
