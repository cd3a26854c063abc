"""Nothing that a user loads is unpickled: read from the source, and watched while everything is loaded.

What the old PyTorch format of public checkpoints may hold is tested in test_public_faults.py.
"""

import ast
import io
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from fuzz import examples
from fuzz.loaders import LOADERS
from fuzz.running import Bench
from regard.data.captions import CaptionedImage
from regard.data.images import Preprocessing
from regard.data.omniglot import _read as read_drawings
from regard.data.region_cache import cached_regions
from regard.errors import RegardError
from regard.training.run import Run

ROOT = Path(regard.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "copyreg"}
RUNS_CODE = {"eval", "exec", "compile", "__import__"}
UNSAFE_YAML = {"load", "load_all", "unsafe_load", "full_load", "UnsafeLoader", "FullLoader", "Loader", "CLoader"}


def faults(source: str) -> list[str]:
    """Whatever in a source could make objects, or run code, from what a file says."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"imports {name}" for name in names if name.split(".")[0] in PICKLES]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml" and node.attr in UNSAFE_YAML:
            found.append(f"yaml.{node.attr}")
        elif isinstance(node, ast.Attribute) and node.attr in ("read_pickle", "to_pickle"):
            found.append(node.attr)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            said = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if called in RUNS_CODE:
                found.append(called)
            if called in ("torch.load", "torch.jit.load", "torch.save", "torch.package.PackageImporter"):
                found += [called] * (called != "torch.load" or said.get("weights_only") != "True")
            if called in ("np.load", "numpy.load", "np.lib.format.read_array") and said.get("allow_pickle") != "False":
                found.append(called)
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_the_source_makes_no_objects_from_files(path: Path) -> None:
    assert faults(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "def f():\n    import dill.source",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.save(model, path)",
        "torch.jit.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, yaml.SafeLoader)",
        "yaml.safe_load(text) or yaml.full_load(text)",
        "loader = yaml.UnsafeLoader(text)",
        "eval(text)",
        "exec(compile(text, '', 'exec'))",
        "table.read_pickle(path)",
    ],
)
def test_what_would_make_objects_is_seen(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize(
    "source", ["model.eval()", "re.compile(x)", "torch.load(p, weights_only=True)", "np.load(p, allow_pickle=False)"]
)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert faults(source) == []


# Watched while everything is loaded.

watching: list[str] = []  # while it holds something, nothing may be unpickled


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Python itself tells of every class that any unpickler looks up, whoever imported it before."""
    if watching and event == "pickle.find_class":
        raise AssertionError(f"a pickle asked for {arguments[0]}.{arguments[1]} while {watching[0]} was loaded")


sys.addaudithook(_hook)  # it cannot be taken away again, only be told to be quiet


def refuse(*arguments: object, **options: object) -> None:
    raise AssertionError("something is unpickled")


@contextmanager
def no_pickle(monkeypatch: pytest.MonkeyPatch, what: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        for name in ("load", "loads"):
            patched.setattr(pickle, name, refuse)
        for name in (
            "Unpickler",
            "_Unpickler",
        ):  # modules that are imported meanwhile may make classes of their own of it
            patched.setattr(pickle, name, type(name, (getattr(pickle, name),), {"load": refuse}))
        watching.append(what)
        try:
            yield
        finally:
            watching.clear()


def test_the_watch_sees_an_unpickler(monkeypatch: pytest.MonkeyPatch) -> None:
    loads, whole = pickle.loads, pickle.dumps(Path("x"))
    with no_pickle(monkeypatch, "a pickle"):
        with pytest.raises(AssertionError, match="something is unpickled"):
            pickle.loads(whole)
        with pytest.raises(AssertionError, match="something is unpickled"):
            pickle.Unpickler(io.BytesIO(whole)).load()
        with pytest.raises(AssertionError, match=r"a pickle asked for pathlib.*while a pickle was loaded"):
            loads(whole)
    assert pickle.loads(whole) == Path("x")


@pytest.mark.parametrize("name", LOADERS)
def test_every_loader_works_without_pickle(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes, checkpoints of ours and of others, tokenizers, tables, pictures, and what a run keeps of its data."""
    bench = Bench(LOADERS[name], tmp_path)
    with no_pickle(monkeypatch, name):
        bench.check_examples()


def test_a_run_is_loaded_without_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.create(tmp_path / "run", {"task": "translate"})
    folder = run.checkpoint(7)
    folder.mkdir(parents=True)
    for name, content in examples.checkpoints()[0].items():
        (folder / name).write_bytes(content)
    run.point("best", 7)
    with no_pickle(monkeypatch, "a run"):
        translator = regard.load(run.folder, device="cpu")
        assert len(translator.translate(["the cat sat"])) == 1


# Arrays that hold objects.


class Evil:
    """Makes a folder when it is unpickled by a reader that trusts it."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def objects(done: Path) -> np.ndarray[Any, Any]:
    found = np.empty(1, dtype=object)
    found[0] = Evil(done)
    return found


def picture() -> CaptionedImage:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return CaptionedImage("red.png", ("a picture",), file.getvalue)


def test_a_cache_of_regions_that_holds_objects_is_refused(tmp_path: Path) -> None:
    prepared = Preprocessing((4, 4), (0.5,) * 3, (0.5,) * 3)

    def encode(pixels: Any) -> torch.Tensor:
        return torch.zeros(len(pixels), 2, 3)

    cached_regions([picture()], prepared, "key", encode, tmp_path / "cache")
    (path,) = (tmp_path / "cache").glob("*.npy")
    np.save(path, objects(tmp_path / "done"), allow_pickle=True)
    with pytest.raises(RegardError, match="not a readable cache"):
        cached_regions([picture()], prepared, "key", encode, tmp_path / "cache")
    assert not (tmp_path / "done").exists()
    np.load(path, allow_pickle=True)  # a reader that trusts the file does run it
    assert (tmp_path / "done").exists()


def test_packed_drawings_that_hold_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "drawings.npz", images=objects(tmp_path / "done"))
    with pytest.raises(RegardError, match=r"object \[1\] are not the drawings of 3 characters"):
        read_drawings(tmp_path / "drawings.npz", 3)
    assert not (tmp_path / "done").exists()
