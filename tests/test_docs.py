"""What the documentation says is true: its code runs, its links lead somewhere, its commands exist."""

import re
from pathlib import Path

import pytest
import yaml

from regard import settings
from regard.recipes import from_values, names
from regard.tasks.translate import TranslationData
from sitework.numbers import numbers

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("docs/**/*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


ALONE = [page for page in PAGES if blocks(page, "python") and '"runs/' not in "".join(blocks(page, "python"))]


@pytest.mark.parametrize("path", ALONE, ids=lambda path: "/".join(path.parts[-2:]))
def test_the_code_of_a_page_runs_and_draws_what_the_page_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From top to bottom, in an empty folder. What opens a run is tested in test_documented_commands.py."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for code in blocks(path, "python"):
        exec(compile(code, str(path), "exec"), scope)
    drawn = {known.name for known in tmp_path.glob("*.svg")}
    shown = {Path(name).name for name in re.findall(r"!\[[^\]]*\]\((images/[^)]+)\)", path.read_text("utf-8"))}
    if path.parent.name == "learn":
        assert drawn == shown
        for name in drawn:  # the kept picture has the words and the shape of the one that was drawn now
            assert skeleton(path.parent / "images" / name) == skeleton(tmp_path / name)


def skeleton(path: Path) -> list[str]:
    """The elements and words of a picture without its numbers, which differ in their last digits between machines.

    Names that matplotlib makes of numbers go too, and so do the pixels of pictures in the picture.
    """
    named = r"\b(?:[pm]|image)[0-9a-f]{10}\b"
    pixels = r"xlink:href=\"data:[^\"]*\""
    return re.sub(rf"{named}|{pixels}|-?\d+(\.\d+)?(e-?\d+)?", "0", path.read_text("utf-8")).split()


def test_every_measured_number_is_in_its_result_file() -> None:
    found = [(path.name, number) for path in TEXTS for number in numbers(path.read_text("utf-8"))]
    assert len(found) > 50
    assert [(page, number) for page, number in found if not number.is_true] == []


def test_the_readmes_recipe_is_a_recipe() -> None:
    (text,) = blocks(ROOT / "README.md", "yaml")
    recipe = from_values(yaml.safe_load(text), "README")
    assert settings.build(TranslationData, recipe.data, "data").train == ("train.en", "train.de")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: "/".join(path.parts[-2:]))
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```|^    .*?$|`[^`\n]+`", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", prose)
    assert [target for target in targets if not is_there(path.parent / target)] == []


def is_there(path: Path) -> bool:
    """In the repository, or made while the site is built: the results, and a page of every notebook."""
    is_notebook = path.parent.name == "tutorials" and path.with_suffix(".ipynb").exists()
    return path.exists() or is_notebook or path.resolve() == ROOT / "docs" / "results.md"


def test_the_makefile_helps_with_every_target_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text("utf-8"))):
        assert re.search(rf"^{target}:.*## ", makefile, flags=re.MULTILINE), target


def test_the_readmes_verbs_exist() -> None:
    from regard.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    said = set(re.findall(r"^regard ([a-z]+)", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE))
    assert said
    assert said <= known


def test_every_recipe_says_what_it_is_and_what_came_out() -> None:
    from regard.recipes import load_recipe

    for name in names():
        recipe = load_recipe(name)
        assert recipe.about, name
        assert recipe.result, name
