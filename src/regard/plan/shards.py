"""How a model is cut among devices.

    ddp     every device has everything
    fsdp    each parameter is cut by rows (FSDP2, `fully_shard`): of a tensor [rows, ...] a device has
            ceil(rows / devices) rows, and the last devices have fewer or none

Blocks, the children of a ModuleList, are gathered one after the other, the next while the last is used; what belongs
to no block stays gathered from its first use to the end of the step.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from regard.training.optimizers import weight_matrices
from regard.training.shards import blocks


@dataclass(frozen=True)
class Numbers:
    """How many numbers a model is made of."""

    parameters: int
    learnt: int  # those that have a gradient
    optimizer: int  # that the optimiser keeps
    matrices: int  # that products read, embeddings aside
    shapes: tuple[tuple[int, ...], ...]
    root: int  # parameters outside of blocks
    largest: int  # parameters of the largest block


def numbers(model: nn.Module, optimizer: str) -> Numbers:
    parameters = list(model.parameters())
    learnt = [parameter for parameter in parameters if parameter.requires_grad]
    matrices = weight_matrices(model)
    momenta = 2 * count(learnt)
    if optimizer == "muon":  # one for hidden matrices
        momenta -= count([parameter for parameter in matrices if parameter.requires_grad])
    sizes = [count(block.parameters()) for block in blocks(model)]
    return Numbers(
        parameters=count(parameters),
        learnt=count(learnt),
        optimizer=momenta,
        matrices=count(matrices),
        shapes=tuple(tuple(parameter.shape) for parameter in parameters),
        root=count(parameters) - sum(sizes),
        largest=max(sizes, default=0),
    )


def count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def sharded(shapes: Sequence[tuple[int, ...]], devices: int) -> int:
    """The numbers of the device that has the most of them."""
    return sum(math.ceil(shape[0] / devices) * math.prod(shape[1:]) if shape else 1 for shape in shapes)
