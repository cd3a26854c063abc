"""Taking a model elsewhere: folders for `transformers`, ONNX graphs, CTranslate2 models, GGUF files.

Each format is one module with the families it knows (FAMILIES), what must be installed for it (PACKAGES, and the EXTRA
that brings them), its QUANTIZATIONS, `write`, which fills a folder, and `check`, which asks the result what it would
ask our model. A folder appears only when the two agree.
"""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError
from regard.export.report import Report
from regard.export.subject import Subject
from regard.files import whole_folder
from regard.int8 import is_int8
from regard.loading import load
from regard.progress import counting

FORMATS = {  # the module that writes each, and the one that compares
    "hf": ("regard.export.hf", "regard.export.hf_parity"),
    "onnx": ("regard.export.onnx", "regard.export.onnx_parity"),
    "ctranslate2": ("regard.export.ctranslate2", "regard.export.ctranslate2_parity"),
    "gguf": ("regard.export.gguf", "regard.export.gguf_parity"),
}


def export_run(
    run: str | Path,
    to: str,
    out: str | Path,
    *,
    quantization: str | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Write `run` into the new folder `out` and return how it compares; a copy that does not agree is not kept.

    `tell` hears the lines of the report, also when it is bad.
    """
    writer = named_format(to)
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{out} is there already: choose another --out, or delete it")
    check_options(to, writer, quantization)
    loaded = load(run, device="cpu")
    if is_int8(loaded.model):
        raise UsageError(f"{run} is in 8 bits: export the whole model it was made of (--quantization makes it small)")
    subject = Subject(str(run), loaded)
    check_family(to, writer, subject)
    with whole_folder(folder) as part, counting(f"exporting to {to}", 2) as finished:
        writer.write(subject, part, quantization)
        finished(1)
        report: Report = importlib.import_module(FORMATS[to][1]).check(subject, part, quantization)
        finished(1)
        for line in report.lines():
            tell(line)
        if not report.holds:
            wrong = next(finding for finding in report.findings if not finding.holds)
            raise RegardError(f"{out} was not written: the exported model is not the same as {run} ({wrong.what})")
    return report


def named_format(to: str) -> Any:
    if to not in FORMATS:
        raise UsageError(f"there is no format {to!r} to export to: choose one of {', '.join(FORMATS)}")
    return importlib.import_module(FORMATS[to][0])


def check_options(to: str, writer: Any, quantization: str | None) -> None:
    missing = [name for name in writer.PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"--to {to} needs {', '.join(missing)}: pip install 'regard[{writer.EXTRA}]'")
    if quantization is not None and quantization not in writer.QUANTIZATIONS:
        known = f"choose one of {', '.join(writer.QUANTIZATIONS)}" if writer.QUANTIZATIONS else "leave the option out"
        raise UsageError(f"--to {to} has no quantization {quantization!r}: {known}")


def check_family(to: str, writer: Any, subject: Subject) -> None:
    if subject.family not in writer.FAMILIES:
        others = [name for name in FORMATS if subject.family in named_format(name).FAMILIES]
        instead = f"it can go --to {' or '.join(others)}" if others else "no format here has one"
        raise UsageError(f"{subject.run} is of the family {subject.family!r}, which --to {to} does not know; {instead}")
