"""The explorer page, put together from plain files: those of the static page that both share, and its own.

There is nothing to build and nothing to fetch from elsewhere; its content security policy forbids it to try.
"""

from functools import cache
from importlib.resources import files

from regard.views.colours import CIVIDIS
from regard.views.page import script_json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SHARED = ("dom.js", "data.js", "colour.js", "matrix.js", "lines.js", "overview.js", "table.js")
OWN = (
    "api.js",
    "state.js",
    "source.js",
    "tiles.js",
    "picture.js",
    "steps.js",
    "generation.js",
    "beam.js",
    "effects.js",
    "addressing.js",
    "examples.js",
    "export.js",
    "asking.js",
    "heads.js",
    "drawing.js",
    "panels.js",
    "main.js",
)


@cache
def script() -> str:
    parts = [_shared(name) for name in SHARED] + [_own(name) for name in OWN]
    return f'"use strict";\n(() => {{\nconst PALETTE = {script_json(CIVIDIS)};\n' + "\n".join(parts) + "})();\n"


@cache
def style() -> str:
    return _shared("page.css") + _own("explorer.css")


@cache
def page_html() -> str:
    return _own("explorer.html")


def _shared(name: str) -> str:
    return (files("regard.views") / "page" / name).read_text(encoding="utf-8")


def _own(name: str) -> str:
    return (files("regard.explorer") / "page" / name).read_text(encoding="utf-8")
