"""Sides in processes of their own, as their users run them.

Two engines in one process disturb each other: runtimes of threads that see more threads than cores let all of them
sleep between two products, and settings of the allocator hold for everybody. Apart, every side is as fast as it is
alone. They take turns, never at once.
"""

import importlib.util
import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class Apart:
    """What `make(*arguments)` gives, a function, in another process; calling this calls that."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any):
        processes = multiprocessing.get_context("spawn")
        self.pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=_work, args=(theirs, make, arguments))
        self.process.start()
        theirs.close()

    def __call__(self, *asked: Any) -> Any:
        self.ask(*asked)
        return self.answer()

    def ask(self, *asked: Any) -> None:
        """Begin; several may work at once."""
        self.pipe.send(asked)

    def answer(self) -> Any:
        answer, wrong = self.pipe.recv()
        if wrong:
            raise SystemExit(f"a side failed: nothing is measured\n{wrong}")
        return answer

    def end(self) -> None:
        self.pipe.close()
        self.process.join()


def _work(pipe: Any, make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    do_without_vision_kernels()
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


def do_without_vision_kernels() -> None:
    """timm and transformers import torchvision, whose kernels are for the one build of torch they were made with; where
    they do not fit, it asks for the shape of two of them all the same. No job uses any."""
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            torch.ops.load_library(next(Path(folder).glob("_C*.so")))
        except (OSError, StopIteration):
            for name in ("nms", "qnms"):
                torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float overlap) -> Tensor")
