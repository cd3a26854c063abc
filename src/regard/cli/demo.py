"""`regard demo`: three minutes from nothing to a trained translator."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[str, typer.Option("--out", help="Run folder; an earlier demo there is replaced.")] = "runs/demo",
) -> None:
    """Train the demo translator (English to Spanish). Score it, and write the page of what it attends to."""
    from regard.demo import run_demo

    run_demo(Path(out))
