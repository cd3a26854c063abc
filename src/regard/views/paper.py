"""What all static pictures share: their inks, their fonts, and how they are saved (PNG or SVG by the name's suffix)."""

import warnings
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure

from regard.errors import UsageError
from regard.files import whole_file

SUFFIXES = (".png", ".svg")
INK, MUTED, MASK, HATCH = "#1d2430", "#667085", "#f1efea", "#cfcac0"


def picture_path(path: str | Path) -> Path:
    """The path, if its name says which kind of picture is wanted."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        given = f"{path.suffix!r}" if path.suffix else "no suffix"
        raise UsageError(f"cannot draw {path.name!r}: {given}; a picture is saved as .png or .svg")
    return path


def save(figure: Figure, path: Path) -> None:
    """Write the picture; the file appears whole or not at all."""
    # Text stays text in SVG: it can be searched, and the reader's own fonts draw any script.
    as_text = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"})
    with as_text, warnings.catch_warnings(), whole_file(path) as file:
        # A script no installed font covers is drawn as boxes; a picture with boxes is better than none.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support .* natively")
        if path.suffix.lower() == ".svg":
            figure.savefig(file, format="svg", metadata={"Date": None})
        else:
            figure.savefig(file, format="png", dpi=160 if max(figure.get_size_inches()) < 20 else 110)


@cache
def fonts() -> list[str]:
    """DejaVu Sans (it comes with matplotlib), then what is installed for the scripts it lacks."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    wanted = (
        "Noto Sans CJK SC",
        "Noto Sans CJK JP",
        "Hiragino Sans",
        "PingFang SC",
        "Microsoft YaHei",
        "Malgun Gothic",
        "WenQuanYi Zen Hei",
        "Noto Sans Devanagari",
        "Arial Unicode MS",
    )
    return ["DejaVu Sans", *(name for name in wanted if name in installed)]
