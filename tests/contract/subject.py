"""What the contract suite must know of a model to hold it to the contract. Each family has a file of subjects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Padding:
    """How examples of different lengths become one batch: which side is filled up, and by how much more than needed."""

    side: str = "right"  # or "left"
    extra: int = 0


@dataclass(frozen=True)
class Subject:
    """One configuration of one family, with examples it can be run on."""

    family: str
    kind: str  # what is special about this configuration
    config: Any
    task: str
    examples: Callable[[int], list[Any]]
    """For a seed, four or more examples of different lengths, at least one as short as can be."""
    outputs: Callable[[nn.Module, list[Any], Padding], list[Tensor]]
    """One batched call: for each example what the model says of it, without the padding. Carries the gradient."""
    under: Callable[[nn.Module, Tensor], Tensor] | None = None
    """All outputs for inputs [rows, 5] of which only those at the True places of this mask are real."""

    @property
    def name(self) -> str:
        return f"{self.family}, {self.kind}"
