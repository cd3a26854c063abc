"""Blocks that torch compiles: fewer passes over memory, for a wait of half a minute or more at the beginning.

Only the blocks of a model, not all of it: losses and masks look at their batches, which a compiler cannot follow. On a
CPU it pays little (`python -m benchmarks compile`), so nobody gets it without asking.
"""

import os
import shutil

import torch
from torch import nn

from regard.errors import UsageError
from regard.training.shards import blocks

COMPILERS = ("g++", "clang++", "c++")


def compile_blocks(model: nn.Module, device: torch.device) -> None:
    """Lengths may change from batch to batch; nothing is compiled again for them."""
    found = [block for block in blocks(model) if hasattr(block, "self_attention")]
    if not found:
        raise UsageError(f"training.compile is for models of attention blocks, not for a {type(model).__name__}")
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))):
        raise UsageError(f"training.compile needs a C++ compiler: {', '.join(COMPILERS)}; none is installed")
    for block in found:
        block.compile(dynamic=True)
