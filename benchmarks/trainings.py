"""Trainings of benchmarks: begun, or gone on with where they stopped."""

from collections.abc import Sequence
from pathlib import Path

from regard.recipes import load_recipe, runner
from regard.training.loop import Outcome
from regard.training.run import Run


def trained(folder: str | Path, recipe: str, overrides: Sequence[str], data: str | None) -> tuple[Run, Outcome]:
    """A run trained to its end; Ctrl-C ends the whole benchmark, and the next try goes on."""
    if Path(folder).exists():
        run, outcome = runner.resume(folder, data)
    else:
        run, outcome = runner.train(load_recipe(recipe, overrides), folder, data)
    if outcome.reason == "stopped":
        raise SystemExit("stopped; the same command goes on")
    return run, outcome
