"""What each task needs from a recipe: one module per task, all with the four functions of `Job`.

The runner, `regard.load` and the command line know tasks by these functions only. A new task is one module here and
one row in `regard.recipes.TASKS`.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from torch import nn

from regard.errors import UsageError, shortened
from regard.recipes import TASKS, Recipe
from regard.tasks.verbs import Verbs
from regard.training.loop import Task
from regard.training.run import Run


@dataclass(frozen=True)
class EvaluationOptions:
    """What somebody who evaluates may change; None leaves it to the checkpoint. A task ignores what is not for it."""

    num_beams: int | None = None
    length_penalty: float | None = None
    replace_unknowns: bool = False  # unknown words by what the attention looks at
    int8: bool = False  # large matrices in 8 bits
    stride: int | None = None  # how far the windows of a language model with a limited context move
    shots: int | None = None  # examples of each label in a few-shot episode


class Evaluated(Protocol):
    """What every evaluation can say."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""

    def told(self) -> str:
        """For people."""


class Job(Protocol):
    """One task, from its recipe to its verb."""

    def check(self, recipe: Recipe, data: str | Path | None) -> None:
        """Refuse wrong sections and missing files before a run folder is made."""

    def prepare(self, recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Verbs, Task]:
        """The verbs around a seeded model, and the task the training loop sees."""

    def evaluate(
        self, run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
    ) -> Evaluated:
        """Score the best checkpoint of a run on a split of its own data."""

    def load(self, folder: Path, model: nn.Module, config_json: str) -> Verbs:
        """The verbs of a checkpoint folder, around its model with the weights in place."""


def named_job(task: str) -> Job:
    if task not in TASKS:
        raise UsageError(f"there is no task {shortened(task)}; choose one of {', '.join(TASKS)}")
    return cast(Job, importlib.import_module(TASKS[task]))
