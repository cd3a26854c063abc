"""`regard export`: what it refuses, what it says, what it leaves behind; and the page that tells of it."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from export import tiny_runs
from regard import cli, families
from regard.errors import RegardError, UsageError
from regard.export import FORMATS, export_run, hf_parity, named_format
from regard.export.report import Finding, Report, compared, same

PAGE = Path(__file__).parent.parent.parent / "docs" / "use" / "export.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "embedder"
    tiny_runs.encoder("bert-embedder", folder)
    return folder


def regard(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def reports(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    monkeypatch.setattr(hf_parity, "check", lambda *given: report)


def test_a_copy_that_agrees_is_kept_and_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports(monkeypatch, Report((Finding("logits", "all the same"),)))
    assert regard("export", run, "--to", "hf", "--out", tmp_path / "copy", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"logits: all the same\nwrote {tmp_path / 'copy'}\n"
    assert (tmp_path / "copy" / "model.safetensors").is_file()


def test_a_copy_that_differs_is_told_and_not_kept(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports(monkeypatch, Report((Finding("logits", "others", holds=False),)))
    assert regard("export", run, "--to", "hf", "--out", tmp_path / "copy", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr()
    assert said.out == "logits: others - NOT THE SAME\n"
    assert "was not written" in said.err
    assert len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_transformers_the_folder_is_written_and_not_compared(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said: list[str] = []
    report = export_run(run, "hf", tmp_path / "copy", tell=said.append)
    assert report.holds
    assert len(said) == 1
    assert "not compared: transformers is not installed" in said[0]
    assert (tmp_path / "copy" / "config.json").is_file()


def test_a_folder_with_something_in_it_is_never_replaced(run: Path, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        export_run(run, "hf", tmp_path)
    with pytest.raises(UsageError, match="is there already"):
        export_run(run, "hf", tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "tflite"], "there is no format 'tflite'.*hf, onnx, ctranslate2, gguf"),
        (["--to", "hf", "--quantization", "int8"], "--to hf has no quantization 'int8': leave the option out"),
        (["--to", "gguf"], "of the family 'bert-embedder', which --to gguf does not know; it can go --to hf or onnx"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(
    options: list[str],
    said: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    assert regard("export", run, "--out", tmp_path / "copy", *options, monkeypatch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert re.search(said, told)
    assert len(told.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_the_command_that_brings_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, extra in (("onnx", "export"), ("ctranslate2", "ctranslate2"), ("gguf", "gguf")):
        with pytest.raises(UsageError, match=re.escape(f"pip install 'regard[{extra}]'")):
            export_run(run, name, tmp_path / "copy")


def test_every_extra_that_is_named_exists() -> None:
    project = (PAGE.parents[2] / "pyproject.toml").read_text("utf-8")
    for name in FORMATS:
        extra = named_format(name).EXTRA
        assert not extra or re.search(rf"^{extra} = \[", project, flags=re.MULTILINE)


def test_numbers_that_differ_are_found_wherever_they_stand() -> None:
    ours = [np.arange(6.0).reshape(2, 3), np.zeros((1, 3))]
    assert compared("logits", ours, [part + 1e-5 for part in ours]).holds
    for fault in (1e-2, np.nan, np.inf):
        other = [part.copy() for part in ours]
        other[1][0, 2] = fault
        assert not compared("logits", ours, other).holds
        assert not np.isfinite(fault) or compared("logits", ours, other, quantised=True).holds
    assert not compared("logits", ours, [ours[0][:, :2], ours[1]]).holds


def test_a_quantised_copy_may_differ_a_little_and_says_how_often_it_chooses_the_same() -> None:
    ours = [np.array([[0.0, 1.0], [1.0, 0.0]])]
    near, far = [np.array([[0.0, 0.9], [0.9, 1.0]]) * 1.0], [np.array([[1.0, 0.0], [0.0, 1.0]])]
    finding = compared("logits", ours, [np.array([[0.0, 1.1], [1.1, 0.0]])], quantised=True)
    assert finding.holds
    assert "first choice in 100.0 % of 2 places" in finding.told
    assert "first choice in 50.0 % of 2 places" in compared("logits", ours, near, quantised=True).told
    assert not compared("logits", ours, far, quantised=True).holds


def test_texts_must_be_the_same_unless_the_copy_is_quantised() -> None:
    assert same("greedy", [[1, 2], [3]], [[1, 2], [3]]).holds
    finding = same("greedy", [[1, 2], [3]], [[1, 2], [4]])
    assert not finding.holds
    assert "text 2 gives [4] instead of [3]" in finding.told
    assert same("greedy", [[1], [3]], [[1], [4]], quantised=True) == Finding("greedy", "identical in 1 of 2 texts")


def table() -> dict[str, dict[str, bool]]:
    """The table of the page: family -> format -> whether it goes."""
    rows = [line.strip("| ").split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in row] for row in rows]
    found = {}
    for families_told, *cells in body:
        for family in re.findall(r"`([a-z0-9-]+)`", families_told):
            found[family] = {name.strip("`"): cell != "no" for name, cell in zip(head[1:], cells, strict=True)}
    return found


def test_the_page_says_which_family_goes_where() -> None:
    """Each that goes anywhere has its row; `all others` go nowhere."""
    expected: dict[str, Any] = {
        family: {name: family in named_format(name).FAMILIES for name in FORMATS} for family in families.known()
    }
    assert table() == {family: goes for family, goes in expected.items() if any(goes.values())}
    assert "| all others | no | no | no | no |" in PAGE.read_text("utf-8")


def test_every_family_that_is_promised_exists() -> None:
    for name in FORMATS:
        assert set(named_format(name).FAMILIES) <= families.known().keys()
        with pytest.raises(RegardError):
            export_run("nowhere", name, "nowhere-either")
