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

    _room = None  # the storage behind keys and values, where there is one; not a field: it belongs to no copy

    def __len__(self) -> int:
        return self.keys.shape[-2]

    def grow(self, new: "Memory") -> "Memory":
        """This memory followed by `new`: a KV cache is a memory that grows."""
        mask = None
        if self.mask is not None or new.mask is not None:
            mask = torch.cat([self._full_mask(), new._full_mask()], dim=-1)
        if not torch.is_inference_mode_enabled():  # gradients and traced graphs need their own copies
            return Memory(torch.cat([self.keys, new.keys], dim=-2), torch.cat([self.values, new.values], dim=-2), mask)
        room = self._room or Room(self)
        room = room.write(len(self), new)
        grown = Memory(*room.first(len(self) + len(new)), mask)
        object.__setattr__(grown, "_room", room)
        return grown

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


class Room:
    """Storage with space behind what is used, so that a memory need not be copied to grow by a step.

    Only what lies behind the end of a memory is ever written, so memories stay the values they are: if two grow from
    the same one, the second finds the space taken and moves to a room of its own.
    """

    def __init__(self, memory: Memory):
        self.parts = (memory.keys, memory.values)
        self.used = len(memory)

    def first(self, length: int) -> tuple[Tensor, Tensor]:
        keys, values = self.parts
        return keys.narrow(-2, 0, length), values.narrow(-2, 0, length)

    def write(self, after: int, new: Memory) -> "Room":
        """This room, or a larger one, with `new` behind the first `after` keys."""
        room = self
        if self.used != after or after + len(new) > self.parts[0].shape[-2]:
            room = self._moved(after, after + len(new))
        for part, added in zip(room.parts, (new.keys, new.values), strict=True):
            part.narrow(-2, after, len(new)).copy_(added)
        room.used = after + len(new)
        return room

    def _moved(self, length: int, wanted: int) -> "Room":
        """A copy of the first `length` keys with space for twice what is `wanted`, so that moves become rare.

        Keys of all heads lie side by side, as a projection writes them: a step is one stretch of memory.
        """
        larger = []
        for part, known in zip(self.parts, self.first(length), strict=True):
            batch, *heads, _, width = part.shape
            space = part.new_empty(batch, 2 * wanted, *heads, width).movedim(1, -2)
            space[..., :length, :] = known
            larger.append(space)
        room = Room(Memory(larger[0], larger[1]))
        room.used = length
        return room


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
