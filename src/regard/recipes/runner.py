"""From a recipe to a trained run folder, and from a run folder to its scores, whatever the task."""

import shutil
from pathlib import Path
from typing import Any

from regard.recipes import Recipe, from_values
from regard.recipes.jobs import EvaluationOptions, named_job
from regard.recipes.starting import Start
from regard.training.loop import Outcome, Trainer, Watcher
from regard.training.run import Run


def train(
    recipe: Recipe, out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None
) -> tuple[Run, Outcome]:
    """Train from the start into a new run folder."""
    named_job(recipe.task).check(recipe, data)
    start = None if recipe.start is None else Start(recipe.start)
    run = Run.create(out, recipe.resolved())
    try:
        trainer = _trainer(recipe, run, data, watcher, start)
    except BaseException:  # a fault in the data, or Ctrl-C while it is read: leave nothing half-made behind
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    return run, trainer.train()


def resume(out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None) -> tuple[Run, Outcome]:
    """Go on with a run folder exactly where its last checkpoint stands."""
    run = Run.open(out)
    recipe = recipe_of(run)
    has_begun = run.checkpoint("last").exists()  # then its own weights hold whatever it started from
    start = None if recipe.start is None or has_begun else Start(recipe.start)
    trainer = _trainer(recipe, run, data, watcher, start)
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
    stride: int | None = None,
    int8: bool = False,
) -> Any:
    """Score a run's best checkpoint on a split of its own data; what comes back is the task's own `Evaluated`."""
    recipe = recipe_of(Run.open(run))
    options = EvaluationOptions(num_beams, length_penalty, replace_unknowns, int8, stride)
    return named_job(recipe.task).evaluate(run, recipe, split, data, options)


def recipe_of(run: Run) -> Recipe:
    """The recipe a run was trained with."""
    return from_values(run.config(), str(run.folder / "config.yaml"))


def _trainer(
    recipe: Recipe, run: Run, data: str | Path | None, watcher: Watcher | None, start: Start | None
) -> Trainer:
    if start is not None:
        start.give_tokenizer(run)
    model, task = named_job(recipe.task).prepare(recipe, run, data)
    if start is not None:
        start.give_weights(model, run)
    return Trainer(model, task, recipe.training_settings(), run, watcher)
