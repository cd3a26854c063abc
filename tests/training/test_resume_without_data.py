"""A run has read its data when it has begun: it is resumed without them, to the same weights, whatever its task."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipes import sections, write_recipes
from together import Stop

from regard.recipes import load_recipe, runner
from regard.training.checkpoints import WEIGHTS
from regard.training.run import Run

NAMES = sorted(sections(Path()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every recipe trained to its end and stopped after three steps; after that all data are deleted."""
    data, runs = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("runs")
    recipes = {name: load_recipe(str(path)) for name, path in write_recipes(data).items()}
    runner.train(recipes["image-words"], data / "runs" / "image-words" / "alone")  # another recipe starts from it
    for name, recipe in recipes.items():
        runner.train(recipe, runs / name / "whole")
        _, outcome = runner.train(recipe, runs / name / "stopped", watcher=Stop(3))
        assert outcome.reason == "stopped"
    shutil.rmtree(data)
    return runs


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_resumed_when_its_data_are_gone(runs: Path, name: str) -> None:
    resumed, outcome = runner.resume(runs / name / "stopped")
    assert outcome.reason == "steps"
    found, expected = (load_file(run.checkpoint("last") / WEIGHTS) for run in (resumed, Run(runs / name / "whole")))
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
