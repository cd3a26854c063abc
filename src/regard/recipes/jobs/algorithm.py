"""Algorithm runs: random episodes, a model of vectors."""

from pathlib import Path

import torch
from torch import nn

from regard import families, settings
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.tasks.algorithm import AlgorithmData, AlgorithmTask
from regard.tasks.algorithm_runner import AlgorithmRunner, AlgorithmScores
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run


def check(recipe: Recipe, data: str | Path | None) -> None:
    _model(recipe)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[nn.Module, AlgorithmTask]:
    training = recipe.training_settings()
    section, family, config = _model(recipe)
    torch.manual_seed(training.seed)
    model = families.build_model(family, config)
    config_json = families.config_json(family, config, "algorithm")
    return model, AlgorithmTask(section, training, config_json, choose_device(training.device))


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> AlgorithmScores:
    runner: AlgorithmRunner = load_run(run, int8=options.int8)
    with counting("solving") as finished:
        return runner.evaluate(split, finished=finished)


def load(folder: Path, model: nn.Module, config_json: str) -> AlgorithmRunner:
    place = folder / "algorithm.json"
    return AlgorithmRunner(model, settings.build(AlgorithmData, checkpoints.load_json(place), str(place)), config_json)


def _model(recipe: Recipe) -> tuple[AlgorithmData, str, object]:
    section = settings.build(AlgorithmData, recipe.data, "data")
    algorithm = section.algorithm()
    family, config = families.resolve(recipe.model, input_size=algorithm.input_size, output_size=algorithm.output_size)
    return section, family, config
