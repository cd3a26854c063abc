"""Files from the network: over https, whole, checked, or not there at all.

What has a known SHA-256 is continued after an interruption: what has come so far waits beside the file as `.NAME.part`,
the rest is asked for, and the whole is checked. Another process that wants the same file meanwhile waits for it.
"""

import gzip
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from regard.errors import RegardError
from regard.files import explained, whole_file

try:
    import fcntl
except ImportError:  # Windows: each process has a part of its own, and begins anew
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and, where the server says so, the bytes to come in all."""

MOST = 1 << 30  # bytes, of a file that nobody knows better
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # where nobody listens in

_CHUNK_BYTES = 1 << 16


def download(
    url: str,
    path: str | Path,
    sha256: str | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
    most: int = MOST,
    gzipped: bool = False,
) -> Path:
    """Fetch `url` into `path`; the file appears only when it is whole and has the expected SHA-256.

    `most` is how large it may be; of a `gzipped` file, what is inside has the SHA-256, and may be that large.
    """
    path = Path(path)
    with arriving(path, keep=sha256 is not None) as part:
        if not is_known(path, sha256, gzipped, most):
            receive(url, part, sha256, timeout, progress, most, gzipped)
            os.replace(part, path)
    return path


def gzipped_from(url: str, path: Path, sha256: str, most: int) -> Path:
    """`path` as it is, or else what `url` holds, gzipped; what is inside has that SHA-256 and at most so many bytes."""
    try:
        if path.exists() or url.endswith(".gz"):
            return path if path.exists() else download(url, path, sha256, most=most, gzipped=True)
        with arriving(path) as part:
            if not path.exists():  # somebody else may have been quicker
                receive(url, part, sha256, most=most)
                with whole_file(path) as file:
                    file.write(gzip.compress(part.read_bytes(), mtime=0))
    except RegardError as error:
        raise RegardError(f"{error} (or put the file at {path} yourself)") from error
    return path


@contextmanager
def arriving(path: Path, keep: bool = True) -> Iterator[Path]:
    """The part of a file that has come so far, ours alone; if the network fails, it stays for another try."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part, lock = _locked(path)
    try:
        with explained(path):
            yield part
    except (Interrupted, KeyboardInterrupt, SystemExit):
        keep = keep and lock is not None and part.exists() and part.stat().st_size > 0
        raise
    except BaseException:
        keep = False
        raise
    else:
        keep = False
    finally:
        if not keep and (lock is None or _is_still_there(lock, part)):  # else it is the next one's
            part.unlink(missing_ok=True)
        if lock is not None:
            lock.close()


class Interrupted(RegardError):
    """The network failed on the way: what has come is good."""


def receive(
    url: str,
    part: Path,
    sha256: str | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
    most: int = MOST,
    gzipped: bool = False,
) -> None:
    """Fill the part with what `url` holds, from where it ends, and check it."""
    if is_known(part, sha256, gzipped, most):
        return  # nothing was missing but the name
    with open(part, "ab") as file:
        if sha256 is None:
            _empty(file)  # whether what it holds is of this file could not be told
        for chunk in fetch(url, timeout, progress, most, file):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if sha256 is not None:
        try:
            found = sha256_of(part, gzipped, most)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RegardError(f"{url} is damaged ({error}) and was not kept; try again") from error
        check_sha256(found, sha256, url)


def fetch(
    url: str,
    timeout: float = 30.0,
    progress: Progress | None = None,
    most: int = MOST,
    begun: BinaryIO | None = None,
) -> Iterator[bytes]:
    """Stream what `url` holds beyond what has `begun`, and make sure at the end that nothing is missing.

    From a server that cannot go on in the middle, everything comes again, and `begun` is emptied.
    """
    check_address(url)
    received = 0 if begun is None else begun.tell()
    try:
        with _opened(url, timeout, received) as answer:
            if received and not _goes_on(answer, received):
                assert begun is not None
                _empty(begun)
                received = 0
            length = answer.headers.get("Content-Length")
            total = received + int(length) if length is not None and length.isdecimal() else None
            if (total or 0) > most:
                raise TooLarge(url, most)
            while chunk := answer.read(_CHUNK_BYTES):
                received += len(chunk)
                if received > most:
                    raise TooLarge(url, most)
                if progress is not None:
                    progress(received, total)
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise Interrupted(
            f"cannot download {url}: the server answers {error.code} {error.reason}; check the address or try later"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise Interrupted(
            f"cannot download {url}: {' '.join(str(reason).split())}; check the network connection and try again"
        ) from error
    if total is not None and received != total:
        raise Interrupted(f"cannot download {url}: it broke off after {received} of {total} bytes; try again")


class TooLarge(RegardError):
    def __init__(self, url: str, most: int):
        super().__init__(f"cannot download {url}: it has more than the {most:,} bytes that are expected")


def check_address(url: str) -> None:
    """Only https, and http from this machine itself."""
    try:
        parts = urlsplit(url)
        is_ours = parts.scheme == "http" and parts.hostname in LOOPBACK
    except ValueError as error:
        raise RegardError(f"cannot download {url}: it is no address ({error})") from error
    if parts.scheme != "https" and not is_ours:
        raise RegardError(f"cannot download {url}: only https addresses are fetched")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Elsewhere, if it is as safe there."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        is_safe = urlsplit(newurl).scheme == "https" or urlsplit(req.full_url).scheme == "http"
        try:
            check_address(newurl)
            if not is_safe:
                raise RegardError(f"cannot download {req.full_url}: it leads to {newurl}, which is not https")
        except RegardError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str, timeout: float, first: int = 0) -> Any:
    """The answer from byte `first` on; all of it, if there is nothing so far along."""
    headers = {"User-Agent": "regard"}  # some servers turn Python's own name away
    opener = urllib.request.build_opener(_Redirects)
    if first:
        ranged = urllib.request.Request(url, headers={**headers, "Range": f"bytes={first}-"})
        try:
            return opener.open(ranged, timeout=timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 416:
                raise
    return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)


def _goes_on(answer: Any, first: int) -> bool:
    return answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {first}-")


def check_sha256(found: str, expected: str | None, url: str) -> None:
    """Refuse what is not the file we know."""
    if expected is not None and found != expected:
        raise RegardError(f"{url} has SHA-256 {found} instead of {expected} and was not kept; try again")


def is_known(path: Path, sha256: str | None, gzipped: bool, most: int) -> bool:
    """Whether a file is there and has that SHA-256."""
    try:
        return sha256 is not None and path.is_file() and sha256_of(path, gzipped, most) == sha256
    except (RegardError, EOFError, zlib.error, gzip.BadGzipFile):
        return False


def sha256_of(path: Path, gzipped: bool = False, most: int = MOST) -> str:
    """Of a file, or of what is inside, which may have `most` bytes."""
    digest, total = hashlib.sha256(), 0
    with gzip.open(path) if gzipped else open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            total += len(chunk)
            if total > most:
                raise RegardError(f"{path.name} swells to more than the {most:,} bytes that are expected")
            digest.update(chunk)
    return digest.hexdigest()


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _locked(path: Path) -> tuple[Path, BinaryIO | None]:
    """The part of a file, and a lock on it; None if this system knows no locks."""
    part = path.with_name(f".{path.name}.part")
    while fcntl is not None:
        lock = open(part, "ab")  # noqa: SIM115 - whoever gets it closes it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_still_there(lock, part):
                return part, lock
        except OSError:  # not on this file system
            lock.close()
            break
        except BaseException:
            lock.close()
            raise
        lock.close()  # it has become the file, or is gone, while we waited
    return path.with_name(f".{path.name}.{os.getpid()}.part"), None


def _is_still_there(opened: BinaryIO, part: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), part.stat())
    except FileNotFoundError:
        return False
