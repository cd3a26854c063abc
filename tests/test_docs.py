"""What the documentation says is true: its code runs, its links lead somewhere, its commands exist."""

import re
from pathlib import Path

import pytest
import yaml

from regard import settings
from regard.recipes import from_values, names
from regard.tasks.translate import TranslationData

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("docs/**/*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", [page for page in PAGES if blocks(page, "python")], ids=lambda path: path.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(path: Path) -> None:
    scope: dict[str, object] = {}
    for code in blocks(path, "python"):
        exec(compile(code, str(path), "exec"), scope)


def test_the_readmes_python_is_python() -> None:
    found = blocks(ROOT / "README.md", "python")
    assert len(found) >= 3
    for code in found:
        compile(code, "README.md", "exec")


def test_the_readmes_recipe_is_a_recipe() -> None:
    (text,) = blocks(ROOT / "README.md", "yaml")
    recipe = from_values(yaml.safe_load(text), "README")
    assert settings.build(TranslationData, recipe.data, "data").train == ("train.en", "train.de")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text("utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


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
