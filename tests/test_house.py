"""The house rules, read from the source itself: who may import whom, no pickle, a docstring everywhere."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# What each part of the house may import from regard. Imports go downward only.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "settings": {"errors"},
    "fallbacks": set(),
    "processors": set(),
    "kernels": {"errors", "fallbacks", "kernels", "processors"},
    "attention": {"attention", "errors", "kernels"},
    "layers": {"attention", "errors", "layers", "kernels"},
    "models": {"attention", "errors", "layers"},  # and never one another
    "data": {"data", "errors", "files", "settings"},
    "views": {"errors", "files", "views"},
    "decoding": {"attention", "data", "decoding", "errors", "layers", "processors"},
    "training": {"data", "errors", "files", "layers", "processors", "settings", "training"},
    "tasks": {"attention", "data", "decoding", "errors", "files", "layers", "settings", "tasks", "training", "views"},
}
SEES_EVERYTHING = {"__init__", "__main__", "cli", "demo", "explorer", "families", "loading", "looking", "progress"} | {
    "bulk",
    "diagnosis",
    "export",
    "inspect",
    "int8",
    "plan",
    "public",
    "recipes",
}
PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def part_of(path: Path) -> str:
    """`src/regard/data/corpus/grammar.py` belongs to `data`, `src/regard/cli/train.py` to `cli`."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """The full name of everything a module imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def parts_imported(tree: ast.AST) -> set[str]:
    names = [name.split(".") for name in imported(tree)]
    return {name[1] for name in names if name[0] == "regard" and len(name) > 1}


def unsafe_loads(tree: ast.AST) -> list[int]:
    """Lines that call torch.load without weights_only=True, or torch.save, which writes pickles."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "torch.save"):
            safe = any(
                keyword.arg == "weights_only" and ast.unparse(keyword.value) == "True" for keyword in node.keywords
            )
            if not safe:
                lines.append(node.lineno)
    return lines


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


every_file = pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])


def test_the_house_is_found() -> None:
    assert {"attention", "layers", "models", "data", "training", "cli"} <= {part_of(path) for path in FILES}


@every_file
def test_every_part_of_the_house_has_its_rule(path: Path) -> None:
    assert part_of(path) in MAY_IMPORT.keys() | SEES_EVERYTHING, "say in MAY_IMPORT what this part may import"


@every_file
def test_imports_go_downward_only(path: Path) -> None:
    part = part_of(path)
    if part not in SEES_EVERYTHING:
        # The package's own name space holds only what is imported at first use, and the version.
        assert parts_imported(parsed(path)) - MAY_IMPORT[part] == set()


@every_file
def test_imports_are_written_out_in_full(path: Path) -> None:
    assert [name for name in imported(parsed(path)) if name.startswith(".")] == []


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "models"], ids=lambda path: path.stem)
def test_models_never_import_one_another_and_stay_short(path: Path) -> None:
    assert "models" not in parts_imported(parsed(path))
    assert len(path.read_text("utf-8").splitlines()) <= 400


@every_file
def test_nothing_is_pickled(path: Path) -> None:
    tree = parsed(path)
    assert {name.split(".")[0] for name in imported(tree)} & PICKLES == set()
    assert "allow_pickle=True" not in ast.unparse(tree)
    assert unsafe_loads(tree) == []


@every_file
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import regard.models.transformer", {"models"}),
        ("from regard.views import page", {"views"}),
        ("from regard import families", {"families"}),
        ("def f():\n    from regard.tasks.translate import Translation", {"tasks"}),
        ("if TYPE_CHECKING:\n    import regard.load as load", {"load"}),
        ("import torch\nfrom regardless import models", set()),
    ],
)
def test_an_import_is_seen_however_it_is_written(source: str, parts: set[str]) -> None:
    assert parts_imported(ast.parse(source)) == parts


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("torch.load(path)", 1),
        ("torch.load(path, weights_only=False)", 1),
        ("torch.load(path, weights_only=True)", 0),
        ("torch.save(model, path)", 1),
    ],
)
def test_an_unsafe_load_is_seen(source: str, count: int) -> None:
    assert len(unsafe_loads(ast.parse(source))) == count


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by their bare names, and of two alike only one would be found."""
    paths = sorted(Path(__file__).parent.rglob("test_*.py"))
    twice = [str(path) for path in paths if sum(other.name == path.name for other in paths) > 1]
    assert not twice


POINTERS = {"data_ptr", "ctypes", "from_address", "const_data_ptr"}
# Where memory is addressed, and why: calls into C, the types of the library's functions, and malloc's settings.
MAY_POINT = {"kernels/ops.py", "kernels/build.py", "training/freed_memory.py"}
# Storages are compared there, and never read.
COMPARES = {"explorer/sizes.py", "int8.py", "plan/traced.py"}


def pointers_used(tree: ast.AST) -> set[str]:
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return POINTERS & (names | {name.split(".")[0] for name in imported(tree)})


@every_file
def test_memory_is_addressed_in_one_place_only(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    if name in COMPARES:
        assert pointers_used(parsed(path)) <= {"data_ptr"}
    elif name not in MAY_POINT:
        assert pointers_used(parsed(path)) == set()
    if part_of(path) != "kernels":
        assert "library" not in {alias.rpartition(".")[2] for alias in imported(parsed(path))}


def test_a_pointer_is_seen() -> None:
    assert pointers_used(ast.parse("import ctypes\nx.data_ptr()")) == {"ctypes", "data_ptr"}
