"""What comes from the network comes over https, whole and checked, goes on where it broke off, and never grows."""

import errno
import gzip
import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.data import download as module
from regard.data import flickr8k as pictures
from regard.data.download import download, gzipped_from
from regard.errors import RegardError
from regard.files import whole_file

CONTENT = b"attention " * 20_000
HALF = len(CONTENT) // 2
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REDIRECTED = {
    "/to-a-file": "file:///etc/hostname",
    "/to-ftp": "ftp://127.0.0.1/whole",
    "/to-http": "http://nowhere.invalid/whole",
    "/to-whole": "/whole",
}
requests: list[tuple[str, str | None]] = []  # every path and range


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        requests.append((self.path, asked))
        if self.path == "/absent":
            self.send_error(404)
            return
        if self.path in REDIRECTED:
            self.send_response(302)
            self.send_header("Location", REDIRECTED[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path in ("/ranged", "/held") and asked is not None:
            self.send_rest(int(asked.removeprefix("bytes=").removesuffix("-")))
            return
        self.send_response(200)
        if self.path == "/cut":
            self.send_header("Content-Length", str(len(CONTENT) + 1))
        elif self.path not in ("/silent", "/unmeasured", "/zipped"):
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if self.path == "/silent":
            self.server.closing.wait(10)  # type: ignore[attr-defined]
        elif self.path in ("/breaks", "/ranged"):
            self.wfile.write(CONTENT[:HALF])
        elif self.path == "/held":
            self.wfile.write(CONTENT[:HALF])
            self.wfile.flush()
            self.server.closing.wait(60)  # type: ignore[attr-defined]
        elif self.path == "/slow":
            self.wfile.write(CONTENT[:HALF])
            self.wfile.flush()
            time.sleep(0.3)
            self.wfile.write(CONTENT[HALF:])
        elif self.path == "/zipped":
            self.wfile.write(gzip.compress(CONTENT))
        else:
            self.wfile.write(CONTENT)

    def send_rest(self, first: int) -> None:
        if first >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206)
        self.send_header("Content-Length", str(len(CONTENT) - first))
        self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        self.wfile.write(CONTENT[first:])

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.closing = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.closing.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    requests.clear()


def refused(url: str, path: Path, **options: object) -> str:
    """The one line that tells why, once it is sure that nothing stayed behind."""
    with pytest.raises(RegardError) as error:
        download(url, path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    assert not path.exists()
    assert not path.parent.is_dir() or not list(path.parent.iterdir())
    return str(error.value)


def test_a_file_arrives_whole_with_its_progress(url: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = tmp_path / "deep" / "folder" / "file"
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    assert download(f"{url}/whole", path, sha256, progress=lambda *now: seen.append(now)) == path
    assert path.read_bytes() == CONTENT
    assert [received for received, _ in seen] == sorted({received for received, _ in seen})
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 1
    assert list(path.parent.iterdir()) == [path]


def test_a_server_that_does_not_tell_the_length_is_fine(url: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(f"{url}/unmeasured", tmp_path / "file", progress=lambda *now: seen.append(now))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), None)


def test_a_download_is_readable_by_those_the_umask_allows(url: str, tmp_path: Path) -> None:
    download(f"{url}/whole", tmp_path / "file")
    (tmp_path / "twin").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "twin").stat().st_mode


def test_a_missing_page_is_named_with_the_answer(url: str, tmp_path: Path) -> None:
    assert f"{url}/absent: the server answers 404 Not Found" in refused(f"{url}/absent", tmp_path / "file")


def test_a_download_cut_short_is_not_kept(url: str, tmp_path: Path) -> None:
    complaint = refused(f"{url}/cut", tmp_path / "file")
    assert f"{len(CONTENT)} of {len(CONTENT) + 1} bytes" in complaint


def test_a_wrong_checksum_is_not_kept(url: str, tmp_path: Path) -> None:
    complaint = refused(f"{url}/whole", tmp_path / "file", sha256="0" * 64)
    assert hashlib.sha256(CONTENT).hexdigest() in complaint
    assert "0" * 64 in complaint


def test_a_wrong_checksum_leaves_an_earlier_file_alone(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("earlier")
    with pytest.raises(RegardError):
        download(f"{url}/whole", tmp_path / "file", sha256="0" * 64)
    assert (tmp_path / "file").read_text() == "earlier"


def test_no_network_is_told_in_one_line(url: str, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        closed = server.server_port
    complaint = refused(f"http://127.0.0.1:{closed}/file", tmp_path / "file")
    assert "refused" in complaint
    assert "check the network" in complaint


def test_a_server_that_falls_silent_is_given_up(url: str, tmp_path: Path) -> None:
    assert "timed out" in refused(f"{url}/silent", tmp_path / "file", timeout=0.2)


def test_what_is_not_an_address_is_refused(tmp_path: Path) -> None:
    assert "only https addresses are fetched" in refused("nowhere", tmp_path / "file")
    assert "it is no address" in refused("https://[", tmp_path / "file")


def test_a_folder_that_may_not_be_written_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # permissions do not bind the superuser

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(module, "open", refuse, raising=False)
    complaint = refused(f"{url}/whole", folder / "file")
    assert f"{folder / 'file'}: cannot be written (Permission denied)" in complaint


def test_a_file_in_the_place_of_the_folder_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "shelf").write_text("not a folder")
    assert "cannot be written" in refused(f"{url}/whole", tmp_path / "shelf" / "file")


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with whole_file(tmp_path / "file") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


# Over https, and nothing else


@pytest.mark.parametrize(
    "address", ["http://nowhere.invalid/file", "file:///etc/hostname", "ftp://127.0.0.1/file", "data:,x"]
)
def test_only_https_is_fetched(address: str, tmp_path: Path) -> None:
    assert "only https addresses are fetched" in refused(address, tmp_path / "file")


@pytest.mark.parametrize("place", ["/to-http", "/to-ftp"])
def test_nothing_leads_away_from_https(url: str, place: str, tmp_path: Path) -> None:
    assert f"{REDIRECTED[place]}: only https addresses are fetched" in refused(url + place, tmp_path / "file")


def test_nothing_leads_to_a_file_of_this_machine(url: str, tmp_path: Path) -> None:
    assert "is not allowed" in refused(f"{url}/to-a-file", tmp_path / "file")


def test_what_was_asked_for_over_https_does_not_come_from_elsewhere() -> None:
    request, answer = urllib.request.Request("https://nowhere.invalid/file"), io.BytesIO()
    with pytest.raises(RegardError, match="it leads to http://localhost/file, which is not https"):
        module._Redirects().redirect_request(request, answer, 302, "Found", {}, "http://localhost/file")
    assert answer.closed


def test_a_safe_redirect_is_followed(url: str, tmp_path: Path) -> None:
    assert download(f"{url}/to-whole", tmp_path / "file", SHA256).read_bytes() == CONTENT


# Not more than is expected


def test_what_says_it_is_too_large_is_not_begun(url: str, tmp_path: Path) -> None:
    seen: list[object] = []
    complaint = refused(f"{url}/whole", tmp_path / "file", most=1000, progress=lambda *now: seen.append(now))
    assert "it has more than the 1,000 bytes that are expected" in complaint
    assert not seen


def test_what_turns_out_too_large_is_given_up(url: str, tmp_path: Path) -> None:
    complaint = refused(f"{url}/unmeasured", tmp_path / "file", sha256=SHA256, most=len(CONTENT) - 1)
    assert "bytes that are expected" in complaint
    assert download(f"{url}/unmeasured", tmp_path / "file", SHA256, most=len(CONTENT)).read_bytes() == CONTENT


def test_what_swells_is_given_up(url: str, tmp_path: Path) -> None:
    complaint = refused(f"{url}/zipped", tmp_path / "file", sha256=SHA256, gzipped=True, most=len(CONTENT) - 1)
    assert "swells to more than" in complaint
    assert len(gzip.compress(CONTENT)) < 5000  # it is not its length that gives it away
    found = download(f"{url}/zipped", tmp_path / "file", SHA256, gzipped=True, most=len(CONTENT))
    assert gzip.decompress(found.read_bytes()) == CONTENT


def test_a_gzipped_file_that_is_none_is_not_kept(url: str, tmp_path: Path) -> None:
    assert f"{url}/whole is damaged" in refused(f"{url}/whole", tmp_path / "file", sha256=SHA256, gzipped=True)


# On from where it broke off


def part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def break_off(url: str, path: Path) -> None:
    with pytest.raises(RegardError, match=f"broke off after {HALF} of {len(CONTENT)} bytes"):
        download(url, path, SHA256)
    assert not path.exists()
    assert part_of(path).read_bytes() == CONTENT[:HALF]


def test_a_download_goes_on_where_it_broke_off(url: str, tmp_path: Path) -> None:
    path, seen = tmp_path / "file", list[tuple[int, int | None]]()
    break_off(f"{url}/ranged", path)
    download(f"{url}/ranged", path, SHA256, progress=lambda *now: seen.append(now))
    assert requests == [("/ranged", None), ("/ranged", f"bytes={HALF}-")]
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]
    assert HALF < seen[0][0] <= seen[-1][0] == len(CONTENT) == seen[-1][1]


def test_from_a_server_that_cannot_everything_comes_again(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    break_off(f"{url}/breaks", path)
    download(f"{url}/whole", path, SHA256)
    assert requests[-1] == ("/whole", f"bytes={HALF}-")
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_of_something_else_is_thrown_away(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    part_of(path).write_bytes(b"x" * HALF)
    assert "was not kept; try again" in refused(f"{url}/ranged", path, sha256=SHA256)
    part_of(path).write_bytes(CONTENT[:7])
    assert download(f"{url}/ranged", path, SHA256).read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_begun_anew(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    part_of(path).write_bytes(CONTENT + b"x")
    with pytest.raises(RegardError, match="broke off"):
        download(f"{url}/ranged", path, SHA256)
    assert requests == [("/ranged", f"bytes={len(CONTENT) + 1}-"), ("/ranged", None)]
    assert download(f"{url}/ranged", path, SHA256).read_bytes() == CONTENT


def test_a_part_that_is_whole_needs_no_network(tmp_path: Path) -> None:
    path = tmp_path / "file"
    part_of(path).write_bytes(CONTENT)
    assert download("https://nowhere.invalid/file", path, SHA256).read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_checksum_nothing_is_continued(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    part_of(path).write_bytes(b"who knows what")
    assert "broke off" in refused(f"{url}/breaks", path)
    part_of(path).write_bytes(b"who knows what")
    assert download(f"{url}/whole", path).read_bytes() == CONTENT
    assert all(asked is None for _, asked in requests)


def test_a_text_goes_on_too_and_is_gzipped_at_the_end(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    with pytest.raises(RegardError, match=r"broke off.*put the file at .*file.gz yourself"):
        gzipped_from(f"{url}/ranged", path, SHA256, len(CONTENT))
    assert gzip.decompress(gzipped_from(f"{url}/ranged", path, SHA256, len(CONTENT)).read_bytes()) == CONTENT
    assert requests[-1] == ("/ranged", f"bytes={HALF}-")
    assert list(tmp_path.iterdir()) == [path]


# Several at once

FETCHING = """
import sys
from regard.data.download import download
print("begun", flush=True)
download(sys.argv[1], sys.argv[2], sys.argv[3])
"""


def fetching(url: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", FETCHING, url, str(path), SHA256]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def wait_for(condition: Callable[[], bool]) -> None:
    over = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < over
        time.sleep(0.01)


def test_two_processes_that_want_the_same_file_fetch_it_once(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with fetching(f"{url}/slow", path) as one, fetching(f"{url}/slow", path) as other:
        assert (one.wait(60), other.wait(60)) == (0, 0)
    assert path.read_bytes() == CONTENT
    assert requests == [("/slow", None)]
    assert list(tmp_path.iterdir()) == [path]


def test_many_threads_that_want_the_same_file_fetch_it_once(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: download(f"{url}/slow", path, SHA256).read_bytes(), range(8)))
    assert found == [CONTENT] * 8
    assert requests == [("/slow", None)]
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_has_fetched_is_not_fetched_again(url: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with fetching(f"{url}/held", path) as process:
        wait_for(lambda: part_of(path).exists() and part_of(path).stat().st_size > 0)
        process.kill()
    begun = part_of(path).stat().st_size
    assert CONTENT.startswith(part_of(path).read_bytes())
    assert download(f"{url}/held", path, SHA256).read_bytes() == CONTENT
    assert requests == [("/held", None), ("/held", f"bytes={begun}-")]
    assert list(tmp_path.iterdir()) == [path]


# Archives that one has


def test_a_picture_that_swells_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "flickr8k"
    folder.mkdir()
    with zipfile.ZipFile(folder / "images_test.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small.jpg", b"x" * 10)
        archive.writestr("large.jpg", b"x" * 11)
    table = "small.jpg\t0\ta dog .\nlarge.jpg\t0\ta cat .\n"
    (folder / "captions_test.tsv.gz").write_bytes(gzip.compress(table.encode()))
    monkeypatch.setattr(pictures, "PICTURE_MOST", 10)
    small, large = pictures.flickr8k(tmp_path, "test")
    assert small.read() == b"x" * 10
    with pytest.raises(RegardError, match=r"large.jpg swells to more than 10 bytes"):
        large.read()
