"""The map of the course is true: its pages exist, its code can be imported, its tests are there."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
COURSE = ROOT / "docs" / "learn"
ROW = re.compile(r"^\| (.+?) \| \[.+?\]\((\w+\.md)\) \| `regard\.([\w.]+)` \| `(tests/[\w/.]+)::(test_\w+)` \|$")


class Row(NamedTuple):
    concept: str
    page: str
    code: str
    test_file: str
    test: str


LINES = [line for line in (COURSE / "map.md").read_text("utf-8").splitlines() if line.startswith("|")]
ROWS = [Row(*found.groups()) for found in map(ROW.match, LINES) if found]


def test_every_line_of_the_map_is_a_row() -> None:
    headings = sum(line.startswith(("| concept", "|---")) for line in LINES)
    assert len(ROWS) == len(LINES) - headings
    assert len(ROWS) > 100
    assert len({row.concept for row in ROWS}) == len(ROWS)


def test_every_page_of_the_course_is_on_the_map_and_in_the_table_of_contents() -> None:
    pages = {path.name for path in COURSE.glob("*.md")} - {"index.md", "map.md"}
    assert {row.page for row in ROWS} == pages
    assert set(re.findall(r"^\d+\. \[.*?\]\((\w+\.md)\)", (COURSE / "index.md").read_text("utf-8"), re.M)) == pages


@pytest.mark.parametrize("code", sorted({row.code for row in ROWS}))
def test_the_code_a_concept_names_is_there(code: str) -> None:
    found = importlib.import_module("regard")
    for name in code.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{name}")
    assert found is not None


@cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=[row.concept.encode("ascii", "ignore").decode() for row in ROWS])
def test_the_test_a_concept_names_is_there(row: Row) -> None:
    assert row.test in functions_in(row.test_file)


def test_the_pages_lead_from_one_to_the_next() -> None:
    """In the order of the table of contents; the last leads back."""
    order = re.findall(r"^\d+\. \[.*?\]\((\w+\.md)\)", (COURSE / "index.md").read_text("utf-8"), re.M)
    for page, following in zip(order, [*order[1:], "index.md"], strict=True):
        last = (COURSE / page).read_text("utf-8").rstrip().splitlines()[-1]
        assert re.fullmatch(rf"Next: \[.+\]\({re.escape(following)}\)\.?", last), page
