"""`regard doctor` reports the kernels, threads, packages and fallbacks in use, and the reason of each fallback."""

import json
import os
import subprocess
import sys

import pytest
import torch

from regard import fallbacks
from regard.diagnosis import diagnosis
from regard.kernels import build, isa

SECTIONS = ["versions", "C kernels", "threads", "optional packages", "fallbacks"]


def doctor(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "doctor", *options]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)


@pytest.mark.skipif(build.library() is None, reason="there is no C compiler here, or no GNU OpenMP")
def test_kernels_that_are_on_are_reported_with_their_instruction_set() -> None:
    answer = doctor("--json")
    found = json.loads(answer.stdout)
    assert (answer.returncode, answer.stderr, list(found)) == (0, "", SECTIONS)
    assert found["C kernels"]["state"] == "on"
    assert found["C kernels"]["instruction set"] == isa.chosen()
    assert found["versions"]["torch"] == torch.__version__
    assert "usable of" in found["threads"]["processors"]


def test_kernels_that_are_off_are_reported_with_the_reason_in_one_line_of_the_log() -> None:
    answer = doctor(CC="no-such-compiler")
    assert answer.returncode == 0
    assert "no C compiler: no-such-compiler was not found" in answer.stdout
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("C kernels: off (no C compiler: no-such-compiler was not found")


def test_a_verb_logs_the_fallback_once() -> None:
    program = "import torch\nfrom regard.kernels import ops\n[ops.is_available() for _ in range(3)]"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"CC": "no-such-compiler"}, capture_output=True, text=True
    )
    assert answer.stderr.count("C kernels: off") == 1


def test_kernels_that_were_switched_off_are_no_fallback() -> None:
    answer = doctor(REGARD_NATIVE="0")
    assert answer.stderr == ""
    assert "off: REGARD_NATIVE=0" in answer.stdout


def test_fallbacks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "_reported", {})
    fallbacks.report("a feature", "a reason")
    fallbacks.report("a feature", "another reason")
    assert diagnosis()["fallbacks"] == {"a feature": "a reason"}


def test_missing_optional_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "importlib.metadata.requires",
        lambda name: ["torch>=2", "no-such-package>=1; extra == 'serve'", "pytest; extra == 'test'"],
    )
    assert diagnosis()["optional packages"] == {"serve": "no-such-package (not installed)"}
