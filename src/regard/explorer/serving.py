"""`regard serve`: load, listen, and leave in good order.

SIGTERM and Ctrl-C let running requests finish while new ones hear 503; then the process ends with exit code 0. A second
signal ends it at once.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.errors import RegardError, UsageError
from regard.explorer.hosts import LOCAL, named
from regard.explorer.limits import Limits

LONGEST_KEY = 4096  # bytes of the file
SHORTEST_KEY = 8  # characters
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
KEY = "REGARD_API_KEY"  # the environment may hold it, too


def serve(
    runs: Sequence[str],
    *,
    host: str,
    port: int,
    limits: Limits,
    key_file: str | None = None,
    allowed_hosts: Sequence[str] = (),
    no_auth: bool = False,
) -> None:
    """Until somebody stops it."""
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError("serving needs FastAPI and uvicorn: pip install 'regard[serve]'") from error
    from regard.explorer.app import make_app
    from regard.explorer.served import load_all
    from regard.explorer.server import Server
    from regard.training.freed_memory import return_freed_memory

    key = the_key(key_file)
    if key is not None and no_auth:
        raise UsageError(f"--no-auth contradicts the key of --api-key-file or {KEY}: leave one of them out")
    listening = listen(host, port)
    with listening:
        address = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
        check_exposed(host, address, key, no_auth)
        hosts = names_of(host, address, key, allowed_hosts)
        loaded = load_all(runs)
        return_freed_memory()
        guard = make_app(loaded, limits, key, hosts)
        shown = f"[{host}]" if ":" in host else host
        place = f"http://{shown}:{listening.getsockname()[1]}"
        print(f"serving {', '.join(loaded)} on {place}; Ctrl-C ends it", flush=True)
        Server(guard).run(sockets=[listening])


def check_exposed(host: str, address: Address, key: str | None, no_auth: bool) -> None:
    """Refuse to let other machines in without a key, unless that is what is wanted."""
    if address.is_loopback or key is not None:
        return
    if not no_auth:
        remedy = "ask for a key with --api-key-file FILE, or add --no-auth if nobody has to prove who they are"
        raise UsageError(f"--host {host} lets other machines use these models: {remedy}")
    print(f"regard: whoever reaches {host} may use these models; --api-key-file asks for a key", file=sys.stderr)


def names_of(host: str, address: Address, key: str | None, allowed: Sequence[str]) -> frozenset[str] | None:
    """The names that the server answers to; any name, if requests bear a key and no name was given.

    A page from elsewhere does not know the key, so it may be a proxy's that adds it."""
    for name in allowed:
        named(name)  # or an error
    if key is not None and not allowed:
        return None
    return LOCAL | set(allowed) | (set() if address.is_unspecified else {host, str(address)})


def the_key(path: str | None) -> str | None:
    """The key of the file, or else of the environment, or none."""
    if path is not None:
        return read_key(path)
    key = os.environ.get(KEY, "").strip()
    if not key:
        return None
    if len(key) < SHORTEST_KEY:
        raise UsageError(f"{KEY} must hold a key of at least {SHORTEST_KEY} characters")
    return key


def read_key(path: str) -> str:
    """The first line of a file that only the two sides should know."""
    try:
        with open(path, "rb") as file:
            line = file.read(LONGEST_KEY).split(b"\n")[0].strip().decode("utf-8")
    except OSError as error:
        raise UsageError(f"--api-key-file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--api-key-file {path}: the key is not UTF-8 text") from error
    if len(line) < SHORTEST_KEY:
        raise UsageError(
            f"--api-key-file {Path(path)}: the first line must hold a key of at least {SHORTEST_KEY} characters"
        )
    return line


def listen(host: str, port: int) -> socket.socket:
    """A socket of that address, or a word on why there is none; port 0 is any that is free."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        opened = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(f"{host}:{port} is no address to listen on ({error})") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()  # whoever comes while the models are loaded waits
    except OSError as error:
        opened.close()
        raise RegardError(f"cannot listen on {host}:{port} ({error.strerror}); choose another --port") from error
    return opened
