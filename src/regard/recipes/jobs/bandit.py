"""Bandit runs: arms drawn when they are needed, and a policy."""

from pathlib import Path

from torch import nn

from regard import families, settings
from regard.errors import UsageError
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.tasks.bandit import BanditData, BanditTask
from regard.tasks.bandit_player import BANDIT, BanditPlayer, BanditScores
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "bandit"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(BanditData, recipe.data, "data")
    family = str(recipe.model.get("preset")).partition(":")[0]
    if family != "snail-policy":
        raise UsageError(f"bandits are played by a snail-policy, not by a {family}: set model.preset")
    families.check(recipe.model, arms=section.arms, pulls=section.pulls)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[BanditPlayer, BanditTask]:
    training = recipe.training_settings()
    section = settings.build(BanditData, recipe.data, "data")
    known = {"arms": section.arms, "pulls": section.pulls}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    return BanditPlayer(model, section, config_json), BanditTask(section, training, choose_device(training.device))


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> BanditScores:
    player: BanditPlayer = load_run(run, int8=options.int8)
    with counting("playing") as finished:
        return player.evaluate(split, finished=finished)


def load(folder: Path, model: nn.Module, config_json: str) -> BanditPlayer:
    place = folder / BANDIT
    return BanditPlayer(model, settings.build(BanditData, checkpoints.load_json(place), str(place)), config_json)
