"""The library of kernels is compiled once, is complete or absent, comes from a folder that only its user can write to,
and is never needed."""

import logging
import os
import re
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from regard import fallbacks
from regard.errors import UsageError
from regard.kernels import build, isa

needs_compiler = pytest.mark.skipif(build.library() is None, reason="there is no C compiler here, or no GNU OpenMP")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.delenv(isa.SWITCH, raising=False)
    monkeypatch.setattr(fallbacks, "_reported", {})
    return tmp_path / "regard" / "kernels"


def load() -> tuple[object, build.Status]:
    """As a new process would."""
    return build._loaded.__wrapped__()


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The compiler's command lines from now on."""
    commands, run = [], subprocess.run

    def counting(command: list[str], **options: object) -> object:
        if "--version" not in command:
            commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", counting)
    return commands


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@needs_compiler
def test_the_library_is_compiled_once_and_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = count_compilations(monkeypatch)
    library, status = load()
    assert library is not None
    assert status == build.Status(isa.chosen(), next(cache.iterdir()))
    assert load()[0] is not None
    assert len(commands) == len(list(cache.iterdir())) == 1


@needs_compiler
def test_other_sources_have_other_libraries(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    source = tmp_path / "kernels.c"
    source.write_text("/* changed */\n")
    monkeypatch.setattr(build, "SOURCES", [*build.SOURCES, source])
    load()
    assert len(list(cache.iterdir())) == 2


@needs_compiler
@pytest.mark.parametrize("source", ["this is not C", "#error no"])
def test_a_failed_build_is_reported_once_and_not_repeated(
    source: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = tmp_path / "wrong.c"
    wrong.write_text(source)
    monkeypatch.setattr(build, "SOURCES", [wrong])
    commands = count_compilations(monkeypatch)
    with caplog.at_level(logging.WARNING, "regard"):
        first, second = load(), load()
    assert first[0] is second[0] is None
    assert len(commands) == 1
    (failed,) = cache.iterdir()
    assert failed.suffix == ".failed"
    assert "the build failed" in first[1].reason
    assert str(failed) in second[1].reason
    assert len(caplog.records) == 1
    assert "C kernels: off (the build failed" in caplog.text
    failed.unlink()
    load()
    assert len(commands) == 2


@needs_compiler
def test_a_build_that_takes_too_long_is_stopped_and_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "CC", script(cache.parent.parent / "slow", 'case "$*" in *--version*) exit 0;; esac; exec sleep 30')
    )
    monkeypatch.setattr(build, "BUILD_TIMEOUT_S", 0.2)
    assert "took more than 0.2 s" in load()[1].reason
    assert [path.suffix for path in cache.iterdir()] == [".failed"]


@needs_compiler
def test_a_damaged_library_is_compiled_again(cache: Path) -> None:
    load()
    (made,) = cache.iterdir()
    whole = made.read_bytes()
    for damaged in (whole[:100], whole[:-1], whole[:5000] + b"\0" + whole[5001:], b""):
        made.unlink()
        made.write_bytes(damaged)
        assert load()[0] is not None
        assert build._is_whole(made)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("CC", "no-such-compiler", "no-such-compiler was not found"), (build.SWITCH, "0", "REGARD_NATIVE=0")],
)
def test_without_compiler_or_when_switched_off_there_is_none(
    name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    library, status = load()
    assert library is None
    assert reason in status.reason


def test_kernels_that_are_switched_off_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.SWITCH, "0")
    load()
    assert fallbacks.reported() == {}


@needs_compiler
def test_the_compiler_may_have_arguments(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in CC="ccache gcc"."""
    monkeypatch.setenv("CC", "env gcc -DANYTHING=1")
    commands = count_compilations(monkeypatch)
    assert load()[0] is not None
    assert commands[0][:3] == ["env", "gcc", "-DANYTHING=1"]


@needs_compiler
def test_clang_is_refused_with_the_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", script(cache.parent.parent / "mycc", "echo Debian clang version 14.0.6"))
    assert "is clang, whose OpenMP runtime is not the one that torch uses" in load()[1].reason


@needs_compiler
def test_another_openmp_runtime_than_torchs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = iter([1000, 2000])
    monkeypatch.setattr(build, "_openmp_address", lambda loaded: next(addresses))
    assert "another OpenMP runtime" in load()[1].reason


def test_a_file_where_the_folder_should_be_means_none(tmp_path: Path) -> None:
    (tmp_path / "regard").write_text("a file")
    assert load()[0] is None


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_cache_folder_that_others_can_write_to_is_refused(cache: Path, mode: int) -> None:
    cache.mkdir(parents=True)
    cache.chmod(mode)
    library, status = load()
    assert library is None
    assert "nobody else can write to" in status.reason
    assert not list(cache.iterdir())


@needs_compiler
def test_a_cache_folder_that_is_a_link_or_belongs_to_somebody_else_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cache.symlink_to(elsewhere)
    assert "not a link" in load()[1].reason
    assert not list(elsewhere.iterdir())
    cache.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "must be a folder of this user" in load()[1].reason


@needs_compiler
def test_the_folder_of_all_caches_loses_the_rights_of_others(cache: Path) -> None:
    """It is usual for a user with a group of their own to create folders that the group can write to."""
    cache.parent.mkdir()
    cache.parent.chmod(0o775)
    assert load()[0] is not None
    assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@needs_compiler
def test_a_library_that_others_can_write_to_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    (made,) = cache.iterdir()
    made.chmod(0o777)
    commands = count_compilations(monkeypatch)
    assert load()[0] is not None
    assert len(commands) == 1
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_every_function_of_the_header_is_there_with_its_arguments() -> None:
    header = (build.CSRC / "kernels.h").read_text("utf-8")
    declared = set(re.findall(r"^\w+ (\w+)\(const \1_arguments \*a\);", header, flags=re.MULTILINE))
    assert declared == set(build.formats())
    counts = dict(re.findall(r"^long (\w+)\((long [^)]*)\);", header, flags=re.MULTILINE))
    assert {name: arguments.count("long") for name, arguments in counts.items()} == build.WORKSPACES
    assert build.formats()["fingerprint"] == "@Pli"
    assert build.formats()["attention_prefill"] == "@PP" + "PPP" + "P" + "P" + "l" * 6 + "3l3l3l2l" + "f" + "ii"


@needs_compiler
def test_the_layout_of_arguments_is_that_of_c(tmp_path: Path) -> None:
    """The size of every struct in C is that of its format."""
    names = list(build.formats())
    printed = "".join(f'printf("%zu ", sizeof({name}_arguments));' for name in names)
    program = tmp_path / "sizes.c"
    program.write_text(f'#include <stdio.h>\n#include "kernels.h"\nint main(void) {{ {printed} return 0; }}\n')
    subprocess.run(["cc", f"-I{build.CSRC}", str(program), "-o", str(tmp_path / "sizes")], check=True)
    sizes = subprocess.run([str(tmp_path / "sizes")], capture_output=True, text=True, check=True).stdout.split()
    for name, size in zip(names, sizes, strict=True):
        # C fills a struct up to its alignment, of 8 bytes.
        assert -(-struct.calcsize(build.formats()[name]) // 8) * 8 == int(size), name


FEATURES = {name: frozenset(required) for name, required in isa.REQUIRED.items()}


@pytest.mark.parametrize("name", isa.REQUIRED)
def test_the_best_variant_of_a_processor_is_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(isa, "processor_features", lambda: FEATURES[name] | {"sse2", "fpu"})
    assert isa.chosen() == name
    assert isa.supported() == list(isa.REQUIRED)[: list(isa.REQUIRED).index(name) + 1]


def test_a_variant_that_the_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(isa, "processor_features", lambda: FEATURES["x86-64-v3"])
    monkeypatch.setenv(isa.SWITCH, "x86-64-v3")
    assert isa.chosen() == "x86-64-v3"
    for name, words in {
        "x86-64-v4-vnni": "avx512_vnni",
        "avx9": "unknown instruction set",
        "native": "cannot run",
    }.items():
        monkeypatch.setenv(isa.SWITCH, name)
        with pytest.raises(UsageError, match=words):
            load()


def test_another_machine_has_one_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa.platform, "machine", lambda: "aarch64")
    assert isa.chosen() == "native"
    monkeypatch.setenv(isa.SWITCH, "x86-64-v3")
    with pytest.raises(UsageError, match="another architecture"):
        isa.chosen()


@needs_compiler
def test_a_process_obeys_the_variant_it_is_given() -> None:
    for name in isa.supported():
        assert run(isa.SWITCH, name, "from regard.kernels import build; print(build.status().isa)") == name
    answer = subprocess.run(
        [sys.executable, "-m", "regard", "doctor"],
        env=os.environ | {isa.SWITCH: "avx9"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2
    assert "REGARD_ISA=avx9: unknown instruction set" in answer.stderr


def run(variable: str, value: str, program: str) -> str:
    environment = os.environ | {variable: value}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_models_generate_the_same_without_kernels() -> None:
    program = """
import torch
from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.models import gpt2
from regard.kernels.build import library
from regard.tasks.continuation import Continuation

torch.manual_seed(0)
model = gpt2.GPT2(gpt2.Config(vocabulary=900, size=512, hidden_size=512, heads=4, layers=2)).eval()
found = generate(Continuation(model, 0, -1), [[5, 6, 7]], Vocabulary(0, 0, (0,)), Decoding(max_new_tokens=8), pad=-1)
print(library() is None, found[0][0].tokens)
"""
    off, on = (run(build.SWITCH, value, program).split(maxsplit=1) for value in ("0", "1"))
    assert off[0] == "True"
    assert off[1] == on[1]


@needs_compiler
@pytest.mark.parametrize(
    ("source", "file", "loop"),
    [
        ("linear_small", "activations.h", r"y\[i\] \*?= .*;"),
        ("attention_decode", "common.h", r"sum \+= scores\[j\] ="),
        ("gru", "gru.c", r"i < size; i\+\+\) {$"),
    ],
)
def test_loops_over_exponentials_are_vectorised(source: str, file: str, loop: str, tmp_path: Path) -> None:
    """Which takes that there is no branch in them: gcc makes one of comparisons of floats that may be NaN."""
    is_gcc = b"Free Software" in subprocess.run(["cc", "--version"], capture_output=True).stdout
    if not is_gcc or isa.chosen() not in isa.supported()[1:]:
        pytest.skip("this is about gcc on x86-64 with AVX2")
    flags = [*build.FLAGS, *isa.COMPILER_FLAGS[isa.chosen()], "-fopt-info-vec-optimized"]
    command = ["cc", *flags, "-c", str(build.CSRC / f"{source}.c"), "-o", str(tmp_path / "object")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    reports = re.findall(rf"{file}:(\d+):\d+: optimized: loop vectorized using (?:32|64) byte", output)
    code = enumerate((build.CSRC / file).read_text("utf-8").splitlines(), 1)
    loops = {number for number, line in code if "for (long" in line and re.search(loop, line)}
    assert loops
    assert all(
        {number, number + 1} & set(map(int, reports)) for number in loops
    )  # gcc names the first line or the next
