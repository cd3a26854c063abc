"""Sides in processes of their own, as their users run them.

Two engines in one process disturb each other: runtimes of threads that see more threads than cores let all of them
sleep between two products, and settings of the allocator hold for everybody. Apart, every side is as fast as it is
alone. They take turns, never at once.
"""

import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any


class Apart:
    """What `make(*arguments)` gives, a function, in another process; calling this calls that."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any):
        processes = multiprocessing.get_context("spawn")
        self.pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=_work, args=(theirs, make, arguments))
        self.process.start()
        theirs.close()

    def __call__(self, *asked: Any) -> Any:
        self.pipe.send(asked)
        answer, wrong = self.pipe.recv()
        if wrong:
            raise SystemExit(f"a side failed: nothing is measured\n{wrong}")
        return answer

    def end(self) -> None:
        self.pipe.close()
        self.process.join()


def _work(pipe: Any, make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    function = None
    while True:
        try:
            asked = pipe.recv()
        except EOFError:  # whoever asked has gone
            return
        try:
            function = make(*arguments) if function is None else function
            pipe.send((function(*asked), None))
        except Exception:
            pipe.send((None, traceback.format_exc()))
