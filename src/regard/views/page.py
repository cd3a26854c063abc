"""One self-contained HTML file in which a reader looks at every head of every layer.

The parts lie in `views/page/` as plain HTML, CSS and JavaScript and are put together here; there is nothing to
build and nothing to fetch, and the page's content security policy forbids it to try. Weights are inlined as base64
of little-endian float16 (at most 0.05 % from the true value), [heads, queries, keys] in C order.
"""

import base64
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import RegardError, UsageError
from regard.files import whole_file
from regard.views.colours import CIVIDIS
from regard.views.maps import AttentionMap, display, words

SCRIPTS = ("dom.js", "data.js", "colour.js", "matrix.js", "lines.js", "overview.js", "table.js", "main.js")


@dataclass(frozen=True, eq=False)
class Example:
    """One sentence pair with everything that looked at it."""

    source: str
    target: str
    reference: str | None = None
    maps: tuple[AttentionMap, ...] = ()
    score: float | None = None
    gold: tuple[tuple[int, int], ...] | None = None
    """Links (source word, target word) by the cross-attention's word numbers; outlined where words are shown."""

    def __post_init__(self) -> None:
        where = f"example {self.source[:40]!r}"
        object.__setattr__(self, "maps", tuple(self.maps))
        if not self.maps:
            raise RegardError(f"{where} has no attention maps; there is nothing to look at")
        first: dict[str, AttentionMap] = {}
        seen: set[tuple[str, int]] = set()
        for attention in self.maps:
            if (attention.kind, attention.layer) in seen:
                raise RegardError(f"{where} has two {attention.kind} maps of layer {attention.layer}")
            seen.add((attention.kind, attention.layer))
            like = first.setdefault(attention.kind, attention)
            if _tokens(attention) != _tokens(like):
                raise RegardError(f"{where}: {attention.name!r} and {like.name!r} have different tokens")
        if self.gold is not None and "cross" in first:
            sources, targets = set(first["cross"].key_words), set(first["cross"].query_words)
            for source, target in self.gold:
                if source not in sources or target not in targets:
                    raise RegardError(
                        f"{where}: gold link ({source}, {target}) names a word its cross-attention does not have"
                    )


def attention_page(title: str, examples: Sequence[Example], path: str | Path) -> Path:
    """Write the page and return its path. An existing file is replaced only by a complete one."""
    path = Path(path)
    if not examples:
        raise UsageError(f"cannot write {path.name!r}: a page needs at least one example")
    with whole_file(path) as file:
        file.write(page_text(title, examples).encode("utf-8", errors="replace"))
    return path


def page_text(title: str, examples: Sequence[Example]) -> str:
    """The page as a string."""
    parts = {
        "title": html.escape(title),
        "style": _asset("page.css"),
        "data": script_json(_payload(title, examples)),
        "script": '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n",
    }
    # One pass, so that nothing inserted is ever searched for further places.
    return re.sub(r"\{\{(title|style|data|script)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("regard.views") / "page" / name).read_text(encoding="utf-8")


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: it contains no character that HTML gives a meaning."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _payload(title: str, examples: Sequence[Example]) -> dict[str, Any]:
    return {"title": title, "palette": CIVIDIS, "examples": [_example(example) for example in examples]}


def _example(example: Example) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    for attention in example.maps:
        sides.setdefault(
            attention.kind,
            {
                "queries": side_labels(attention.queries, attention.query_words),
                "keys": side_labels(attention.keys, attention.key_words),
                "visible": attention.visible,
                "layers": [],
            },
        )["layers"].append(
            {
                "name": attention.name,
                "layer": attention.layer,
                "shape": attention.weights.shape,
                "weights": base64.b64encode(_half(attention.weights).tobytes()).decode("ascii"),
            }
        )
    for side in sides.values():
        side["layers"].sort(key=lambda entry: entry["layer"])
    return {
        "source": example.source,
        "target": example.target,
        "reference": example.reference,
        "score": None if example.score is None or not np.isfinite(example.score) else float(example.score),
        "gold": None if example.gold is None else [[int(a), int(b)] for a, b in example.gold],
        "kinds": sides,
    }


def side_labels(tokens: Sequence[str], numbers: Sequence[int]) -> dict[str, Any]:
    """The tokens of one side of a map as they are shown, and the words they make."""
    found = words(tokens, numbers)
    return {
        "tokens": [display(token) for token in tokens],
        "words": [label for _, label, _, _ in found],
        "numbers": [int(number) for number, _, _, _ in found],
        "starts": [start for _, _, start, _ in found],
    }


def _half(weights: np.ndarray) -> np.ndarray:
    return np.minimum(weights, np.finfo(np.float16).max).astype("<f2")


def _tokens(attention: AttentionMap) -> tuple[object, ...]:
    return (
        attention.queries,
        attention.keys,
        attention.query_words,
        attention.key_words,
        attention.visible,
    )
