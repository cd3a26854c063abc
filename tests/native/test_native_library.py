"""The library of kernels: made once, whole or not at all, and never needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.native import compiled

needs_compiler = pytest.mark.skipif(compiled.library() is None, reason="there is no C compiler here, or no GNU OpenMP")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    return tmp_path / "regard" / "native"


def fresh() -> object:
    return compiled.library.__wrapped__()


@needs_compiler
def test_the_library_is_compiled_once_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fresh() is not None
    (made,) = cache.iterdir()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(subprocess, "run", never)
    assert fresh() is not None
    assert list(cache.iterdir()) == [made]


@needs_compiler
def test_other_sources_have_other_libraries(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh()
    source = tmp_path / "kernels.c"
    source.write_text("/* changed */\n")
    monkeypatch.setattr(compiled, "SOURCES", [*compiled.SOURCES, source])
    fresh()
    assert len(list(cache.iterdir())) == 2


@needs_compiler
@pytest.mark.parametrize("source", ["this is not C", "#error no"])
def test_what_cannot_be_compiled_leaves_nothing_behind(
    source: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "kernels.c"
    wrong.write_text(source)
    monkeypatch.setattr(compiled, "SOURCES", [wrong])
    assert fresh() is None
    assert not list(cache.iterdir())


@needs_compiler
def test_a_damaged_library_is_made_anew(cache: Path) -> None:
    made = compiled._file()
    whole = made.read_bytes()
    made.write_bytes(whole[:100])
    assert fresh() is not None
    assert made.read_bytes() == whole


@pytest.mark.parametrize(("name", "value"), [("CC", "no-such-compiler"), (compiled.SWITCH, "0")])
def test_without_compiler_or_when_switched_off_there_is_none(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert fresh() is None


def test_a_folder_that_cannot_be_written_means_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "regard").write_text("a file where the folder should be")
    assert fresh() is None


def test_models_generate_the_same_without_kernels(tmp_path: Path) -> None:
    script = """
import torch
from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.models import gpt2
from regard.native.compiled import library
from regard.tasks.continuation import Continuation

torch.manual_seed(0)
model = gpt2.GPT2(gpt2.Config(vocabulary=900, size=512, hidden_size=512, heads=4, layers=2)).eval()
found = generate(Continuation(model, 0, -1), [[5, 6, 7]], Vocabulary(0, 0, (0,)), Decoding(max_new_tokens=8), pad=-1)
print(library() is None, found[0][0].tokens)
"""
    said = []
    for switch in ("0", "1"):
        environment = os.environ | {compiled.SWITCH: switch}
        answer = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        said.append(answer.stdout.split(maxsplit=1))
    assert said[0][0] == "True"
    assert said[0][1] == said[1][1]
