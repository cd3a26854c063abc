"""Every promise of docs/use/safety.md names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "use" / "safety.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_there_are_promises() -> None:
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[f"{file}::{name}" for file, name in NAMED])
def test_a_named_test_exists(file: str, name: str) -> None:
    content = (ROOT / file).read_text("utf-8")
    assert not name or re.search(rf"^def {name}\(", content, flags=re.MULTILINE)


def test_every_row_of_a_table_of_promises_names_a_test() -> None:
    tables = re.findall(r"^\|[^\n]*\| test \|\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", PAGE, flags=re.MULTILINE)
    assert len(tables) >= 4
    rows = [row for table in tables for row in table.splitlines()]
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []
