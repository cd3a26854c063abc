"""Pages in a real browser: open one, read what became of it, and hear what its console said."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest


class Reader(HTMLParser):
    """The tags of a page and the text of its JSON block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data, self.title, self._inside = "", "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = "data" if dict(attrs).get("id") == "data" else tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data += data
        if self._inside == "title":
            self.title += data


def chromium(folder: Path, address: str, *options: str) -> tuple[str, str]:
    """Open an address; return the document after it ran and what the console said."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    quiet = (
        "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --virtual-time-budget=3000 --enable-logging=stderr --v=0"
    )
    profile = folder / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    profile.mkdir()
    command = [program, *quiet.split(), f"--user-data-dir={profile}", *options, "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    return done.stdout, done.stderr


def root_of(document: str) -> dict[str, str | None]:
    return next(attributes for tag, attributes in Reader(document).tags if tag == "html")


def assert_drawn(document: str, console: str) -> None:
    root = root_of(document)
    assert "data-errors" not in root
    assert root.get("data-ready") == "true"
    # Chromium logs errors and remarks of a page at one level; the page says nothing, so any line is a mistake.
    assert [line for line in console.splitlines() if "CONSOLE" in line] == []
