import errno
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.data.download import download
from regard.errors import RegardError
from regard.files import whole_file

CONTENT = b"attention " * 20_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path == "/cut":
            self.send_header("Content-Length", str(len(CONTENT) + 1))
        elif self.path == "/whole":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if self.path == "/silent":
            self.server.closing.wait(10)  # type: ignore[attr-defined]
            return
        self.wfile.write(CONTENT)

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
    assert "unknown url type" in refused("nowhere", tmp_path / "file")


def test_a_folder_that_may_not_be_written_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # permissions do not bind the superuser

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("regard.files.open", refuse, raising=False)
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
