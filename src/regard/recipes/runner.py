"""From a recipe to a trained run folder, and from a run folder to its scores, whatever the task."""

import shutil
from pathlib import Path
from typing import Any

from regard.recipes import Recipe, from_values
from regard.recipes.jobs import EvaluationOptions, named_job
from regard.training.loop import Outcome, Trainer, Watcher
from regard.training.run import Run


def train(
    recipe: Recipe, out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None
) -> tuple[Run, Outcome]:
    """Train from the start into a new run folder."""
    named_job(recipe.task).check(recipe, data)
    run = Run.create(out, recipe.resolved())
    try:
        trainer = _trainer(recipe, run, data, watcher)
    except BaseException:  # a fault in the data, or Ctrl-C while it is read: leave nothing half-made behind
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    return run, trainer.train()


def resume(out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None) -> tuple[Run, Outcome]:
    """Go on with a run folder exactly where its last checkpoint stands."""
    run = Run.open(out)
    trainer = _trainer(recipe_of(run), run, data, watcher)
    trainer.resume()
    return run, trainer.train()


def evaluate(
    run: str | Path,
    split: str = "test",
    *,
    data: str | Path | None = None,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    replace_unknowns: bool = False,
) -> Any:
    """Score a run's best checkpoint on a split of its own data; what comes back is the task's own `Evaluated`."""
    recipe = recipe_of(Run.open(run))
    options = EvaluationOptions(num_beams, length_penalty, replace_unknowns)
    return named_job(recipe.task).evaluate(run, recipe, split, data, options)


def recipe_of(run: Run) -> Recipe:
    """The recipe a run was trained with."""
    return from_values(run.config(), str(run.folder / "config.yaml"))


def _trainer(recipe: Recipe, run: Run, data: str | Path | None, watcher: Watcher | None) -> Trainer:
    model, task = named_job(recipe.task).prepare(recipe, run, data)
    return Trainer(model, task, recipe.training_settings(), run, watcher)
