"""Measured numbers know where they come from.

    [35.2](../../benchmarks/results/multi30k-attention.json "runs > Bahdanau > test > bleu")

is a number, the result file that holds it, and its place there: keys joined by ` > `, list items by their index; of a
list the number is its length. On the site the link leads to the file's part of the results page. A test looks every
number up; after a new measurement

    python -m sitework.numbers

writes what the files say now, and tells each number it changed: the sentence around it may have to change as well.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BETWEEN = " > "
TO_FILE = re.compile(r'\[([^\[\]]*)\]\((?:\.\./)*benchmarks/results/([\w-]+)\.json(?: "([^"]*)")?\)')


@dataclass(frozen=True)
class Number:
    """A number as a page shows it."""

    shown: str
    file: str
    place: str

    @property
    def is_true(self) -> bool:
        """Whether the file holds it: to the digits that are shown, as it is or in percent."""
        try:
            value = look_up(self.file, self.place)
        except (OSError, KeyError, IndexError, ValueError):
            return False
        return self.shown == self.written(value) or self.shown.rstrip("% ") == short(value)

    def written(self, value: float) -> str:
        """Another value in the same form: as many decimals, commas, a percent sign."""
        digits = self.shown.rstrip("% ")
        decimals, commas = len(digits.partition(".")[2]), "," * ("," in digits)
        scale = 100 if self.shown.endswith("%") else 1
        return f"{value * scale:{commas}.{decimals}f}{self.shown[len(digits) :]}"


def short(value: float) -> str:
    """A number of a list of numbers."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@cache
def contents(file: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{file}.json").read_text("utf-8"))


def look_up(file: str, place: str) -> Any:
    value: Any = contents(file)
    for key in place.split(BETWEEN):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return len(value) if isinstance(value, list) else value


def numbers(text: str) -> list[Number]:
    """Every number of a page that says where it comes from."""
    return [Number(*found) for found in TO_FILE.findall(text) if found[2]]


def linked(shown: str, file: str, place: str) -> str:
    """The markdown of a number, for a page in docs/."""
    return f'[{shown}](../benchmarks/results/{file}.json "{place}")'


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Result files lie outside the site; its results page tells what they hold."""
    up = "../" * page.file.src_uri.count("/")

    def to_results(found: re.Match[str]) -> str:
        title = f' "{found[3]}"' if found[3] else ""
        return f"[{found[1]}]({up}results.md#{found[2]}{title})"

    return TO_FILE.sub(to_results, text)


def renew(page: Path) -> list[str]:
    """Write what the files say now; what changed is returned."""
    changed: list[str] = []

    def true(found: re.Match[str]) -> str:
        number = Number(*found.groups(""))
        if not number.place or number.is_true:
            return found[0]
        now = number.written(look_up(number.file, number.place))
        changed.append(f"{number.shown} -> {now}  ({number.file}: {number.place})")
        return found[0].replace(f"[{number.shown}]", f"[{now}]", 1)

    text = page.read_text("utf-8")
    new = TO_FILE.sub(true, text)
    if changed:
        page.write_text(new, "utf-8")
    return changed


def pages() -> list[Path]:
    """All that may show a number."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    for page in pages():
        for line in renew(page):
            print(f"{page.relative_to(ROOT)}: {line}")
