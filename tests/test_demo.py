"""`regard demo` from end to end, on a model and a corpus small enough for a test."""

import json
from pathlib import Path

import pytest

from browser import assert_drawn, chromium
from regard import demo
from regard.errors import UsageError
from regard.recipes import load_recipe

SMALL = [
    "model.size=16",
    "model.hidden_size=32",
    "model.heads=2",
    "data.options={count: 120}",
    "training.steps=6",
    "training.validate_every=3",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "load_recipe", lambda name: load_recipe(name, SMALL))
        demo.run_demo(folder)
    return folder


def test_the_demo_leaves_its_results(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text("utf-8"))
    assert {"bleu", "chrf", "aer", "train_seconds", "parameters"} <= results.keys()
    assert 0 <= results["aer"] <= 1
    assert results["count"] == 120
    assert results["parameters"] > 10_000


def test_a_second_demo_takes_the_place_of_the_first(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "load_recipe", lambda name: load_recipe(name, SMALL))
    (finished / "results.json").unlink()
    demo.run_demo(finished)
    assert (finished / "results.json").exists()


def test_the_demo_replaces_nothing_but_a_demo(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("five years of work")
    with pytest.raises(UsageError, match="not an earlier demo"):
        demo.run_demo(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_demos_page_opens_without_a_console_error(finished: Path, tmp_path: Path, theme: str) -> None:
    page = finished / "attention.html"
    document, console = chromium(tmp_path, f"{page.as_uri()}#theme={theme}")
    assert_drawn(document, console)
    assert document.count("<option") >= demo.SAMPLES  # each sample can be chosen
