"""Algorithm runs: random episodes, a model of vectors."""

from pathlib import Path

from torch import nn

from regard import families, settings
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.tasks.algorithm import AlgorithmData, AlgorithmTask
from regard.tasks.algorithm_runner import ALGORITHM, AlgorithmRunner, AlgorithmScores
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "algorithm"


def check(recipe: Recipe, data: str | Path | None) -> None:
    families.resolve(recipe.model, **_sizes(settings.build(AlgorithmData, recipe.data, "data")))


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[AlgorithmRunner, AlgorithmTask]:
    training = recipe.training_settings()
    section = settings.build(AlgorithmData, recipe.data, "data")
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **_sizes(section))
    task = AlgorithmTask(section, training, choose_device(training.device))
    return AlgorithmRunner(model, section, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> AlgorithmScores:
    runner: AlgorithmRunner = load_run(run, int8=options.int8)
    with counting("solving") as finished:
        return runner.evaluate(split, finished=finished)


def load(folder: Path, model: nn.Module, config_json: str) -> AlgorithmRunner:
    place = folder / ALGORITHM
    return AlgorithmRunner(model, settings.build(AlgorithmData, checkpoints.load_json(place), str(place)), config_json)


def _sizes(section: AlgorithmData) -> dict[str, int]:
    algorithm = section.algorithm()
    return {"input_size": algorithm.input_size, "output_size": algorithm.output_size}
