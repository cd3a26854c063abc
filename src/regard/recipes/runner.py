"""From a recipe to a trained run folder, and from a run folder to its scores, whatever the task."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from regard.recipes import Recipe, from_values
from regard.recipes.jobs import EvaluationOptions, named_job
from regard.recipes.starting import Start
from regard.training.company import Company, gather
from regard.training.loop import Outcome, Trainer, Watcher, choose_device
from regard.training.recovery import enough_memory
from regard.training.run import Bystander, Run


def train(
    recipe: Recipe, out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None
) -> tuple[Run, Outcome]:
    """Train from the start into a new run folder."""
    named_job(recipe.task).check(recipe, data)
    start = None if recipe.start is None else Start(recipe.start)
    with _company(recipe) as company:
        if company.decide(lambda: company.is_restarted and Run(out).is_there()):
            return _go_on(Run.open(out), recipe, data, watcher, company)
        run = Run.create(out, recipe.resolved()) if company.leads else Bystander(out)
        try:
            trainer = _trainer(recipe, run, data, watcher, start, company)
        except BaseException:  # a fault in the data, or Ctrl-C while it is read: leave nothing half-made behind
            if company.leads:
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        with enough_memory(run):
            return run, trainer.train()


def resume(out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None) -> tuple[Run, Outcome]:
    """Go on with a run folder exactly where its last checkpoint stands."""
    run = Run.open(out)
    recipe = recipe_of(run)
    with _company(recipe) as company:
        return _go_on(run, recipe, data, watcher, company)


def _go_on(
    run: Run, recipe: Recipe, data: str | Path | None, watcher: Watcher | None, company: Company
) -> tuple[Run, Outcome]:
    has_begun = bool(run.saved_steps())  # then its own weights hold whatever it started from
    start = None if recipe.start is None or has_begun else Start(recipe.start)
    run = run if company.leads else Bystander(run.folder)
    trainer = _trainer(recipe, run, data, watcher, start, company)
    trainer.resume()
    with enough_memory(run):
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
    shots: int | None = None,
) -> Any:
    """Score a run's best checkpoint on a split of its own data; what comes back is the task's own `Evaluated`."""
    recipe = recipe_of(Run.open(run))
    options = EvaluationOptions(num_beams, length_penalty, replace_unknowns, int8, stride, shots)
    return named_job(recipe.task).evaluate(run, recipe, split, data, options)


def recipe_of(run: Run) -> Recipe:
    """The recipe a run was trained with."""
    return from_values(run.config(), str(run.folder / "config.yaml"))


@contextmanager
def _company(recipe: Recipe) -> Iterator[Company]:
    """Alone, or with the others that `torchrun` has started."""
    settings = recipe.training_settings()
    company = gather(settings.strategy, partial(choose_device, settings.device))
    try:
        yield company
    finally:
        company.leave()


def _trainer(
    recipe: Recipe, run: Run, data: str | Path | None, watcher: Watcher | None, start: Start | None, company: Company
) -> Trainer:
    if not company.leads:
        company.wait()  # for what the leader makes of the data
    if start is not None:
        start.give_tokenizer(run)
    verbs, task = named_job(recipe.task).prepare(recipe, run, data)
    if start is not None:
        start.give_weights(verbs.model, run)
    if company.leads:
        company.wait()
    return Trainer(verbs.model, task, recipe.training_settings(), run, verbs.files(), watcher, company)
