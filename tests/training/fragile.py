"""A training of which one process is killed once: torchrun --max-restarts 3 tests/training/fragile.py RECIPE RUN."""

import os
import signal
import sys
from typing import Any

from regard.recipes import load_recipe, runner
from regard.training.company import is_restarted
from regard.training.loop import Trainer

KILLED_AT = 5


def fragile(update: Any) -> Any:
    def maybe(self: Trainer, *arguments: Any) -> None:
        if self.progress.step + 1 == KILLED_AT and os.environ["RANK"] == "1" and not is_restarted():
            os.kill(os.getpid(), signal.SIGKILL)
        update(self, *arguments)

    return maybe


if __name__ == "__main__":
    Trainer._update = fragile(Trainer._update)  # type: ignore[method-assign]
    runner.train(load_recipe(sys.argv[1]), sys.argv[2])
