"""The explorer page is made of plain files, small, and asks nobody but its own server."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import regard.explorer.page as page
from browser import Reader

FOLDER = Path(str(files("regard.explorer"))) / "page"
MOST = 250 * 1024  # bytes


def test_every_file_of_the_folder_is_in_the_page() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"explorer.html", "explorer.css", *page.OWN}
    for name in page.OWN:
        assert (FOLDER / name).read_text("utf-8") in page.script()


def test_the_page_is_small() -> None:
    assert sum(len(part.encode("utf-8")) for part in (page.script(), page.style(), page.page_html())) < MOST


def test_nothing_is_fetched_from_elsewhere() -> None:
    addresses = re.findall(r"https?://[\w./]+", page.script() + page.style() + page.page_html())
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # names, not addresses
    assert not re.search(r"@import|url\(|import\(|\beval\(|innerHTML|insertAdjacentHTML|document\.write", page.script())
    tags = Reader(page.page_html()).tags
    found = [value for _, tag in tags for name, value in tag.items() if name in ("src", "href")]
    assert sorted(found, key=str) == ["#drawing", "data:,", "docs", "explorer.css", "explorer.js"]


def test_the_server_sends_it_with_a_policy(client: TestClient) -> None:
    reply = client.get("/")
    assert reply.text == page.page_html()
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert client.get("/explorer.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/explorer.css").headers["content-type"].startswith("text/css")


def test_every_label_belongs_to_a_control() -> None:
    tags = Reader(page.page_html()).tags
    names = {attributes.get("id") for _, attributes in tags}
    assert [tag for tag, attributes in tags if tag == "label" and attributes.get("for") not in names] == []
    buttons = [attributes for tag, attributes in tags if tag == "button"]
    assert buttons


HASHES = """
let now = 0, timer = null;
const written = [];
const location = { hash: "" };
const setTimeout = (call, wait) => ((timer = { call, at: now + wait }), timer);
const clearTimeout = () => (timer = null);
const history = {
  replaceState(state, title, address) {
    written.push([now, address]);
    if (process.argv[2] === "throws") throw new Error("SecurityError: more than 100 times per 30 seconds");
  },
};
STATE;
for (; now < 30_000; now += 10) {
  if (timer && timer.at <= now) timer.call();
  if (now < 25_000) {
    state.strength = now;
    writeHash();
  }
}
console.log(JSON.stringify(written));
"""


@pytest.mark.parametrize("browser", ["allows", "throws"])
def test_the_address_is_written_less_often_than_safari_allows_and_the_last_change_is_in_it(browser: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = HASHES.replace("STATE;", (FOLDER / "state.js").read_text("utf-8"))
    ended = subprocess.run([node, "-", browser], input=program, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    written = json.loads(ended.stdout)
    assert written[0] == [0, "#strength=0"]  # at once
    assert 50 < len(written) < 100
    assert written[-1][1] == "#strength=24990"


def test_nothing_that_is_drawn_goes_wrong_unheard() -> None:
    """A promise that nobody waits for loses its error; what draws by itself says it on the page."""
    lines = [line.strip() for line in page.script().splitlines()]
    assert [line for line in lines if re.match(r"(render|showStatistics|renderLong|renderMap)\(", line)] == []
