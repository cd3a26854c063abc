"""What other operating systems lack: the package does without."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.reading import lines
from regard.errors import RegardError, UsageError

WITHOUT_FCNTL = """
import importlib, os, pkgutil, sys
import torch
sys.modules["fcntl"] = None
import regard
missing = []
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        missing.append(error.name)
from regard.bulk.files import held
with held(sys.argv[1]), held(sys.argv[1]):
    open(os.path.join(sys.argv[1], "part"), "w").close()
print(os.listdir(sys.argv[1]), "fcntl" in missing)
"""


def test_the_whole_package_is_imported_and_writes_parts_without_fcntl(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_FCNTL, str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.stdout == "['part'] False\n", done.stderr


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))


def test_standard_input_needs_no_device_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_input(monkeypatch, "\ufeffone ä\r\n\n".encode() + b"x" * 50 + b"\nlast")
    assert list(lines(None, longest=20)) == ["one ä", "", "", "last"]
    assert capsys.readouterr().err == "regard: line 3 of the input is too long and was left empty\n"
    assert not sys.stdin.buffer.closed


def test_faults_of_standard_input_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    give_input(monkeypatch, b"good\nb\xe4d\n")
    with pytest.raises(RegardError, match=r"^standard input, line 2: byte 0xe4 at offset 6 is not UTF-8"):
        list(lines(None))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match=r"^standard input is closed; name a file"):
        list(lines(None))
