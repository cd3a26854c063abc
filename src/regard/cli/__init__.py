"""The command line: a file per verb. Everything heavy is imported when a verb runs, not before."""

from regard.cli.program import app, main

__all__ = ["app", "main"]
