"""The site: it builds without a warning, asks no network, and its numbers and pictures are those of the repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sitework import architecture, speed
from sitework.notebooks import as_markdown
from sitework.numbers import RESULTS, Number, contents, numbers, renew
from sitework.results import CLAIMS, Claim, Ours, page, parts

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    assert [line for line in built.stderr.splitlines() if not line.startswith("INFO")] == []
    assert "does not contain an anchor" not in built.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/tutorials/*.ipynb")]:
        name = path.relative_to(ROOT / "docs").with_suffix("")
        home = site if name.name == "index" else site / name
        home = site / name.parent if name.name == "index" else home
        assert (home / "index.html").is_file(), path


def test_no_page_asks_the_network(site: Path) -> None:
    """Links that a reader may follow are fine; what a browser fetches by itself is not."""
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]+", text)
        fetched += re.findall(r"<link\b[^>]*\brel=[\"']?(?:stylesheet|preload|icon)\b[^>]*https?://[^\s>]+", text)
        assert fetched == [], path


def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "learn" / "scores" / "index.html").read_text("utf-8")
    assert text.count("<math") > 5
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert "arithmatex" not in text, path
        for formula in re.findall(r"<math.*?</math>", text, flags=re.DOTALL):
            assert not re.search(r">&<|\\|\$", formula), path  # nothing is left of LaTeX


def test_every_number_of_the_results_page_comes_from_a_result_file() -> None:
    found = numbers(page())
    assert len(found) > 200
    assert [number for number in found if not number.is_true] == []
    assert {number.file for number in found} == {path.stem for path in RESULTS.glob("*.json")}


def test_no_number_of_ours_stands_there_without_its_source() -> None:
    """In the column of what came out here, what remains without the links and their names is no number."""
    for claims in parts().values():
        for claim in claims:
            here = claim.markdown().split(" | ")[2]
            assert here.count("](../benchmarks/results/") == len(claim.ours)


def test_a_wrong_number_is_found_out() -> None:
    place = "test_accuracy > attention"
    assert Number("90.6 %", "imdb-han", place).is_true
    assert Number("0.906", "imdb-han", place).is_true
    assert not Number("90.7 %", "imdb-han", place).is_true
    assert not Number("90.6 %", "imdb-han", "test_accuracy > nothing").is_true
    assert not Number("90.6 %", "no-such-file", place).is_true
    assert not Number("RESULT", "imdb-han", place).is_true


def test_a_claim_that_did_not_come_out_is_a_miss() -> None:
    ours = tuple(Ours(name, f"imdb-han > test_accuracy > {name}", percent=True) for name in ("attention", "average"))
    holds = Claim("it helps", "somebody", "more", ours, "#0 > #1")
    misses = Claim("it reaches 95 %", "somebody", "more", ours, "#0 >= 0.95")
    assert (holds.is_met, misses.is_met) == (True, False)
    assert "| holds |" in holds.markdown()
    assert "| **missed** |" in misses.markdown()
    assert "**missed**" in page()  # some did


def test_every_claim_says_who_made_its_numbers() -> None:
    assert CLAIMS.exists()
    for claims in parts().values():
        for claim in claims:
            for number in claim.ours:
                assert contents(number.where[0])["command"] in claim.markdown()


def test_the_picture_of_the_house_is_that_of_its_imports() -> None:
    assert architecture.PICTURE.read_text("utf-8") == architecture.drawn(), "python -m sitework.architecture"
    levels = architecture.floors()
    height = {part: floor for floor, parts in enumerate(levels) for part in parts}
    for part, below in architecture.arrows():
        assert height[part] > height[below] or part in architecture.uses()[below]


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/tutorials/*.ipynb")), ids=lambda path: path.stem)
def test_a_tutorial_is_a_page_with_its_code_and_what_it_showed(path: Path) -> None:
    text = as_markdown(path)
    assert text.startswith("# ")
    assert text.count("```python") >= 3
    assert text.count("```text") + text.count("<img") + text.count("<div>") >= 2


def test_the_tables_of_speed_tell_every_ratio_and_call_a_miss_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio = {"ours": "regard", "theirs": "a peer", "ratio": 1.31, "least": 1.2, "most": 1.5, "promised": 1.4}
    slower = {**ratio, "ratio": 0.9, "promised": None}
    known = {
        "command": "python -m benchmarks generate",
        "date": "2026-01-01",
        "machine": "one",
        "batches": {"1": {"ratios": [ratio, {**ratio, "promised": 1.3}]}, "8": {"ratios": [slower]}},
    }
    monkeypatch.setattr(speed, "jobs", lambda: ["speed-generate"])
    monkeypatch.setattr(speed, "contents", lambda file: known)
    told = "\n".join(speed.page_part())
    rows = [line for line in told.splitlines() if "a peer" in line]
    assert [row.count("**missed**") for row in rows] == [1, 0, 0]
    assert [row.count("holds") for row in rows] == [0, 1, 0]
    assert rows[0].startswith("| batches 1 |")
    assert [number.place for number in numbers(rows[2])] == [
        f"batches > 8 > ratios > 0 > {key}" for key in ("ratio", "least", "most")
    ]


def test_numbers_that_a_new_measurement_has_overtaken_are_renewed(tmp_path: Path) -> None:
    to = '(benchmarks/results/kept.json "{}")'.format
    page = tmp_path / "page.md"
    page.write_text(f"[1.5]{to('ratio')} [12 %]{to('share')} [9,000.0]{to('rows')} [kept](kept.json) [2]{to('list')}")
    known = {"ratio": 1.26, "share": 0.1249, "rows": 12345.67, "list": [1, 2]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sitework.numbers.contents", lambda file: known)
        assert [line.partition("  ")[0] for line in renew(page)] == ["1.5 -> 1.3", "9,000.0 -> 12,345.7"]
        told = page.read_text()
        assert all(number.is_true for number in numbers(told))
        assert "[12 %]" in told
        assert "[kept](kept.json)" in told
        assert renew(page) == []
