"""`regard train`: a recipe into a run folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import DataFolder
from regard.errors import UsageError


def train(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE|FILE.yaml", help="See `regard recipes`.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as training.steps=200 model.dropout=0.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Run folder (default: runs/RECIPE).")] = None,
    data: DataFolder = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the run folder's last checkpoint stands.")
    ] = False,
) -> None:
    """Train a recipe into a run folder. Ctrl-C saves and leaves; --resume goes on bit by bit the same."""
    from regard.recipes import load_recipe

    if recipe is None and not (resume and out):
        raise UsageError(
            "say which recipe to train (see: regard recipes), or which run to resume with --resume --out RUN"
        )
    folder = out or f"runs/{Path(recipe or '').stem}"
    if resume:
        if overrides:
            raise UsageError(f"--resume goes on with {folder} as it was configured; {overrides[0]!r} would change it")
        finish_training(None, folder, data)
    else:
        finish_training(load_recipe(recipe or "", overrides or []), folder, data)


def finish_training(recipe: Any, folder: str, data: str | None) -> None:
    """Train or (without a recipe) resume, with a progress bar, and say how it ended."""
    from regard.progress import TrainingBar
    from regard.recipes import runner
    from regard.training.company import leads
    from regard.training.run import Run

    settings = recipe.training_settings() if recipe else runner.recipe_of(Run.open(folder)).training_settings()
    with TrainingBar(settings.steps) as bar:
        if recipe:
            run, outcome = runner.train(recipe, folder, data, bar)
        else:
            run, outcome = runner.resume(folder, data, bar)
    progress = outcome.progress
    if not leads():
        return
    if outcome.reason == "stopped":
        print(f"stopped and saved at step {progress.step}; go on with: regard train --resume --out {folder}")
        return
    best = f", best validation loss {progress.best_loss:.4f}" if progress.best_loss is not None else ""
    print(f"trained {progress.step} steps in {progress.seconds:.0f} s{best}; the run is in {run.folder}")
