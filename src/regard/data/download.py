"""Files from the network: whole, checked, or not there at all."""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.errors import RegardError
from regard.files import whole_file

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and, where the server says so, the bytes to come in all."""

_CHUNK_BYTES = 1 << 16


def download(
    url: str,
    path: str | Path,
    sha256: str | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Path:
    """Fetch `url` into `path`; the file appears only when it is whole and has the expected SHA-256."""
    path = Path(path)
    digest = hashlib.sha256()
    with whole_file(path) as file:
        for chunk in fetch(url, timeout, progress):
            digest.update(chunk)
            file.write(chunk)
        check_sha256(digest.hexdigest(), sha256, url)
    return path


def fetch(url: str, timeout: float = 30.0, progress: Progress | None = None) -> Iterator[bytes]:
    """Stream what `url` holds, and make sure at the end that nothing is missing."""
    received = 0
    try:
        # Some servers turn Python's own name away.
        request = urllib.request.Request(url, headers={"User-Agent": "regard"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdecimal() else None
            while chunk := answer.read(_CHUNK_BYTES):
                received += len(chunk)
                if progress is not None:
                    progress(received, total)
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise RegardError(
            f"cannot download {url}: the server answers {error.code} {error.reason}; check the address or try later"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise RegardError(
            f"cannot download {url}: {' '.join(str(reason).split())}; check the network connection and try again"
        ) from error
    if total is not None and received != total:
        raise RegardError(f"cannot download {url}: it broke off after {received} of {total} bytes; try again")


def check_sha256(found: str, expected: str | None, url: str) -> None:
    """Refuse what is not the file we know."""
    if expected is not None and found != expected:
        raise RegardError(f"{url} has SHA-256 {found} instead of {expected} and was not kept; try again")
