"""The two values of the mechanism: what may be looked at, and what looking gave."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention import masks

WeightsOf = Callable[[slice | Tensor | None, slice | Tensor | None], Tensor]
"""Recomputes exact weights for chosen heads and chosen query rows (None: all)."""


@dataclass(frozen=True)
class Memory:
    """Keys to compare with, values to read, and which of them are real.

    Keys are already in the space where the score compares them, so they are projected once however many queries
    come. `mask` belongs to the keys: [batch, keys], True = may be attended to.
    """

    keys: Float[Tensor, "*batch keys key_size"]
    values: Float[Tensor, "*batch keys value_size"]
    mask: Bool[Tensor, "batch keys"] | None = None

    def __len__(self) -> int:
        return self.keys.shape[-2]

    def grow(self, new: "Memory") -> "Memory":
        """This memory followed by `new`: a KV cache is a memory that grows."""
        mask = None
        if self.mask is not None or new.mask is not None:
            mask = torch.cat([self._full_mask(), new._full_mask()], dim=-1)
        return Memory(torch.cat([self.keys, new.keys], dim=-2), torch.cat([self.values, new.values], dim=-2), mask)

    def _full_mask(self) -> Bool[Tensor, "batch keys"]:
        if self.mask is not None:
            return self.mask
        return torch.ones(self.keys.shape[0], len(self), dtype=torch.bool, device=self.keys.device)

    def positions(self) -> Int[Tensor, "*batch keys"]:
        """The place of each key among the real ones (padding keys have the place of a neighbour)."""
        if self.mask is None:
            return torch.arange(len(self), device=self.keys.device)
        return masks.positions(self.mask)

    def lengths(self) -> Int[Tensor, "*batch"]:
        """How many real keys there are."""
        if self.mask is None:
            return torch.tensor(len(self), device=self.keys.device)
        return self.mask.sum(-1)


@dataclass
class Attended:
    """What attention returns: the context that was read and, when someone asks, the weights it was read with.

    The weights are recomputed from the same queries and keys at the first look, so that a fused kernel may do the
    reading and nobody pays for weights nobody looks at.
    """

    context: Float[Tensor, "*batch queries size"]
    weights_of: WeightsOf = field(repr=False)
    memory: Memory | None = field(default=None, repr=False)  # what was attended to: the cache for the next step
    log_probability: Float[Tensor, "*batch queries"] | None = None  # of the sampled key (hard alignment)

    @cached_property
    def weights(self) -> Float[Tensor, "*batch queries keys"]:
        return self.weights_of(None, None)
