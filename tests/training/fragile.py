"""A training of which two processes are killed: torchrun --max-restarts 3 tests/training/fragile.py RECIPE RUN."""

import os
import signal
import sys
from typing import Any

from regard.recipes import load_recipe, runner
from regard.training.loop import Trainer

KILLED = {("0", "1", 5), ("1", "0", 4)}  # restarts until then, the process, before this step; the leader is the second


def fragile(update: Any) -> Any:
    def maybe(self: Trainer, *arguments: Any) -> None:
        if (os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"], self.progress.step + 1) in KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        update(self, *arguments)

    return maybe


if __name__ == "__main__":
    Trainer._update = fragile(Trainer._update)  # type: ignore[method-assign]
    runner.train(load_recipe(sys.argv[1]), sys.argv[2])
