"""`regard doctor`: which kernels, threads, extras and fallbacks are in use, and why."""

import json
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Report which kernels, threads, optional packages and fallbacks are in use, and why."""
    from regard.diagnosis import diagnosis

    found = diagnosis()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    width = max(len(name) for section in found.values() for name in section)
    for title, section in found.items():
        typer.echo(title)
        for name, value in section.items():
            typer.echo(f"  {name:<{width}}  {value}")
