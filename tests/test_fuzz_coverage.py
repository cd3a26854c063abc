"""benchmarks/fuzz_coverage.py: what an input stands for, what counts as a fault, and, with atheris, a short run."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_coverage
from fuzz import faulty
from fuzz.coverage import HEAD, Target
from fuzz.loaders import LOADERS

SCRIPT = Path(fuzz_coverage.__file__)
HAS_ATHERIS = importlib.util.find_spec("atheris") is not None


@pytest.mark.parametrize("name", fuzz_coverage.TARGETS)
def test_every_example_loads_as_an_input(name: str, tmp_path: Path) -> None:
    readers = fuzz_coverage.target(name, tmp_path)
    seeds = list(readers.seeds())
    assert len(seeds) == len(set(seeds)) == len(readers.slots)
    assert [readers.run(given) for given in seeds] == [None] * len(seeds)
    assert (readers.loaded, readers.refused, readers.faults) == (len(seeds), 0, {})


@pytest.mark.filterwarnings("ignore")  # of libraries, at odd files
@pytest.mark.parametrize("name", fuzz_coverage.TARGETS)
def test_mutated_inputs_are_refused_and_leave_the_examples_as_they_were(name: str, tmp_path: Path) -> None:
    readers = fuzz_coverage.target(name, tmp_path)
    seeds = list(readers.seeds())
    mutated = [readers.mutated(seeds[number % len(seeds)], number) for number in range(60)]
    assert [readers.run(given) for given in [*mutated, b"", b"\xff", b"\xff\xff"]] == [None] * 63
    assert readers.refused > 20
    assert all((slot.folder / slot.name).read_bytes() == slot.content for slot in readers.slots)
    assert readers.mutated(seeds[0], 5) == readers.mutated(seeds[0], 5)


def test_the_first_input_of_each_fault_is_reported(tmp_path: Path) -> None:
    readers = Target.of([faulty.LOADERS["faulty-untyped"]], ("",), tmp_path)
    (seed,) = readers.seeds()
    assert readers.run(seed) is None
    found = readers.run(seed[:HEAD] + b"spoilt")
    assert found is not None
    assert found.endswith("KeyError: 'a'")
    assert readers.run(seed[:HEAD] + b"spoilt as well") is None
    assert len(readers.faults) == 1


def test_each_reader_has_loaders_with_files_of_every_ending(tmp_path: Path) -> None:
    for name, (loaders, endings) in fuzz_coverage.TARGETS.items():
        assert set(loaders) <= LOADERS.keys()
        found = {slot.name for slot in fuzz_coverage.target(name, tmp_path / name).slots}
        assert all(any(file.endswith(ending) for file in found) for ending in endings)


@pytest.mark.skipif(HAS_ATHERIS, reason="atheris is installed")
def test_without_atheris_it_is_named(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "table", "--runs", "5"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'regard[fuzz]'" in done.stderr


@pytest.mark.skipif(not HAS_ATHERIS, reason="atheris is not installed")
@pytest.mark.parametrize("name", fuzz_coverage.TARGETS)
def test_a_short_run_reaches_the_library_and_finds_no_fault(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), name, "--runs", "50", "--child", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads((tmp_path / "counts").read_text())
    assert counts["loaded"] > 0
    assert counts["loaded"] + counts["refused"] >= 50
    assert not (tmp_path / "faults").exists()
