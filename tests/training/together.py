"""What each of two processes does in test_company.py: every recipe of a folder with either strategy, in one meeting.

torchrun tests/training/together.py FOLDER
"""

import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from regard.recipes import load_recipe, runner
from regard.training.settings import STRATEGIES


class Stop:
    """A watcher that asks to stop after a step."""

    def __init__(self, step: int):
        self.step = step

    def stepped(self, progress: Any, record: dict[str, float]) -> None:
        if progress.step == self.step:
            signal.raise_signal(signal.SIGINT)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for recipe in sorted(folder.glob("*.yaml")):
        for strategy in STRATEGIES:
            run = folder / "runs" / recipe.stem / strategy
            runner.train(load_recipe(str(recipe), [f"training.strategy={strategy}"]), run)
    runner.resume(folder / "runs" / "one-two-one", watcher=Stop(4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
