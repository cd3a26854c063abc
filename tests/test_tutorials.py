"""The tutorials are true: they run from top to bottom, fail if what they claim does not hold, and what they show of an
earlier run betrays nothing of the machine it was made on.

The claims themselves stand in the notebooks, as assertions. Kernels compute on one thread, like the tests.
"""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 600  # for a cell; each notebook takes well under a minute of one core
LARGEST = 300_000  # bytes
# A place on a machine: at the beginning of a word, or in a traceback's or a browser's form. Base64 has slashes, too.
ABSOLUTE = re.compile(r"(?:^|[\s\"'(=>])(?:file://|~/|/(?:work|tmp|root|home|Users|usr|var|private|opt|mnt)/|[A-Z]:\\)")

every_tutorial = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(output: Any) -> str:
    """All that an output says, in whatever form."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join([output.ename, output.evalue, *output.traceback])
    return "\n".join(text for kind, text in output.data.items() if kind not in ("image/png", "image/jpeg"))


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def test_there_are_eight_tutorials() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "caption_images",
        "fine_tune_bert",
        "generate_with_gpt2",
        "scale_out",
        "translate_your_own_pairs",
        "what_heads_do",
        "your_own_model",
        "your_own_score",
    ]


@every_tutorial
def test_the_tutorial_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what it makes goes where pytest clears up
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read(path)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # a cell that fails, an assertion of the tutorial among them, raises CellExecutionError
    assert [shown(output) for output in outputs(notebook) if ABSOLUTE.search(shown(output))] == []


@every_tutorial
def test_it_claims_something_that_can_be_wrong(path: Path) -> None:
    lines = [line for cell in code_cells(read(path)) for line in cell.source.splitlines()]
    claims = [line for line in lines if line.startswith("assert ")]
    assert len(claims) >= 2
    assert all(claim not in ("assert True", "assert 1") for claim in claims)


@every_tutorial
def test_it_begins_with_what_one_has_at_the_end_and_ends_with_where_to_go(path: Path) -> None:
    cells = read(path).cells
    assert 8 <= len(cells) <= 16
    kinds = [cell.cell_type for cell in cells]
    assert kinds == ["markdown", "code"] * (len(kinds) // 2) + ["markdown"] * (len(kinds) % 2)
    title, _, promise = cells[0].source.partition("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    assert promise.startswith("At the end you ")
    assert "## Where to go from here" in cells[-1].source


@every_tutorial
def test_its_links_lead_somewhere(path: Path) -> None:
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    targets = [target for text in texts for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text)]
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []


@every_tutorial
def test_its_stored_outputs_are_whole_and_name_no_place_of_a_machine(path: Path) -> None:
    notebook = read(path)
    assert path.stat().st_size < LARGEST
    assert [cell.execution_count for cell in code_cells(notebook)] == [*range(1, len(code_cells(notebook)) + 1)]
    found = outputs(notebook)
    assert found
    assert [shown(output) for output in found if output.output_type == "error"] == []
    assert [shown(output) for output in found if output.get("name") == "stderr"] == []
    assert [shown(output)[:200] for output in found if ABSOLUTE.search(shown(output))] == []
    assert all("execution" not in cell.metadata for cell in notebook.cells)  # when and how long is nobody's business


def test_a_place_of_a_machine_is_known_when_it_is_seen() -> None:
    for text in (
        "/tmp/abc/runs",
        "wrote /home/me/x",
        "'/opt/main'",
        'File "/usr/lib/python3',
        "C:\\Users",
        "file:///x",
    ):
        assert ABSOLUTE.search(text), text
    for text in ("runs/mine", "text/html", "</g>", "iVBOR/tmp/w0KGgo", "https://matplotlib.org/", "a / b", "and/or"):
        assert not ABSOLUTE.search(text), text
