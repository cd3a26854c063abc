"""`regard look`: what a model attends to."""

from typing import Annotated

import typer

from regard.cli.drawing import check_name
from regard.cli.options import RunFolder
from regard.errors import UsageError


def look(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look at, or the file of a picture.")],
    target: Annotated[str | None, typer.Option("--target", help="Look at this translation instead of our own.")] = None,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Such as 0,2 or -1, counted from 0 (default: all).")
    ] = None,
    heads: Annotated[str | None, typer.Option("--heads", help="Such as 0,3, counted from 0 (default: all).")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="page.html, map.svg or map.png.")] = None,
) -> None:
    """See what a model attends to. A page, a picture, or a map on the terminal."""
    from regard.loading import load_for
    from regard.looking import draw

    check_name(output)
    print(draw(load_for("look", run), text, target, numbers(layers, "--layers"), numbers(heads, "--heads"), output))


def numbers(text: str | None, option: str) -> list[int] | None:
    """`0,2,-1` as a list."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a list of whole numbers such as 0,2 or -1") from None
