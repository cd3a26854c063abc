"""The blocks of SNAIL (Mishra et al. 2018, https://arxiv.org/abs/1707.03141): experience as a sequence, read causally.

    causal convolution   f_t = W x_t + V x_{t-d} + b                    width 2, dilation d, zeros before the first
    dense block          [x; tanh(f) * sigmoid(g)]                      f and g two such convolutions
    TC block             dense blocks of dilation 1, 2, 4, ... until one output sees the whole sequence
    attention block      [x; softmax(q k^T / sqrt(d_k), over the past and itself) v],   q, k, v affine in x

Every block keeps what it is given and appends to it. So the states above all blocks hold, in their first channels, the
inputs of each block: one tensor is all that a further step must know of the past (and the keys and values, which could
be computed from it again).

Several elements may stand at the last place side by side: each sees the past and itself, and none of the others. That
is how many queries share one reading of their examples. Padding must be zero and stand in front.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Alignment, Attended, Attention, Memory, ScaledDot, masks
from regard.attention.alignments import Aligned, Allowed, Queries, Scores, masked_softmax
from regard.errors import UsageError

States = Float[Tensor, "batch steps size"]
Longer = Float[Tensor, "batch steps longer_size"]  # the states and what a block appends to them
One = Float[Tensor, "batch 1 size"]
OneLonger = Float[Tensor, "batch 1 longer_size"]
Mask = Bool[Tensor, "batch steps"]
Places = Int[Tensor, "steps"]


class Past(Alignment):
    """Softmax over the keys before the query's place and over its own. The queries are the last of the keys."""

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        keys = torch.arange(len(memory), device=scores.device)
        own = masks.positions_of_queries(scores.shape[-2], len(memory), scores.device)
        visible = (keys < queries.places[:, None]) | (keys == own[:, None])
        return Aligned(masked_softmax(scores, masks.combine(allowed, visible)))


class DenseBlock(nn.Module):
    """[x; tanh(f) * sigmoid(g)], f and g causal convolutions with `filters` channels."""

    def __init__(self, input_size: int, filters: int, dilation: int):
        super().__init__()
        self.dilation, self.input_size, self.output_size = dilation, input_size, input_size + filters
        self.now = nn.Linear(input_size, 2 * filters)  # W, b of f and of g
        self.before = nn.Linear(input_size, 2 * filters, bias=False)  # V of f and of g

    def forward(self, states: States, places: Places, mask: Mask | None = None) -> Longer:
        earlier = places - self.dilation
        before = self.before(states)[:, earlier.clamp(min=0)].masked_fill((earlier < 0)[:, None], 0.0)
        gated = self._gated(self.now(states) + before)
        return torch.cat([states, gated if mask is None else gated.masked_fill(~mask[..., None], 0.0)], dim=-1)

    def step(self, state: One, past: Float[Tensor, "batch past all_sizes"]) -> OneLonger:
        """One element after the `past`."""
        place = past.shape[1] - self.dilation
        convolved = self.now(state)
        if place >= 0:
            convolved = convolved + self.before(past[:, place : place + 1, : self.input_size])
        return torch.cat([state, self._gated(convolved)], dim=-1)

    @staticmethod
    def _gated(convolved: States) -> Longer:
        f, g = convolved.chunk(2, dim=-1)
        return torch.tanh(f) * torch.sigmoid(g)


class AttentionBlock(nn.Module):
    """[x; what x reads from the past and itself]"""

    def __init__(self, input_size: int, key_size: int, value_size: int):
        super().__init__()
        self.output_size = input_size + value_size
        self.query, self.key = nn.Linear(input_size, key_size), nn.Linear(input_size, key_size)
        self.value = nn.Linear(input_size, value_size)
        self.attention = Attention(ScaledDot(key_size, key_size), Past())

    def remember(self, states: States, mask: Mask | None = None) -> Memory:
        return self.attention.remember(self.key(states), mask, values=self.value(states))

    def forward(self, states: States, places: Places, mask: Mask | None = None) -> Longer:
        return self._joined(states, self.attention(self.query(states), self.remember(states, mask), places))

    def step(self, state: One, memory: Memory) -> OneLonger:
        """One element, the last of `memory`."""
        place = torch.tensor([len(memory) - 1], device=state.device)
        return self._joined(state, self.attention(self.query(state), memory, place))

    @staticmethod
    def _joined(states: States, attended: Attended) -> Longer:
        return torch.cat([states, attended.context], dim=-1)


@dataclass(frozen=True)
class Experience:
    """What a step must know of those before it."""

    states: States  # above all blocks
    memories: tuple[Memory, ...]  # of each attention block


class Temporal(nn.Module):
    """Blocks one above the other, named as the paper writes them: `att 64 32` (keys, values) and `tc 128` (filters).

    `length` is the longest sequence that a TC block is to cover.
    """

    def __init__(self, input_size: int, length: int, blocks: tuple[str, ...]):
        super().__init__()
        self.blocks = nn.ModuleList()
        self.input_size, size = input_size, input_size
        for kind, sizes in map(block_sizes, blocks):
            if kind == "att":
                self.blocks.append(AttentionBlock(size, *sizes))
                size += sizes[1]
            else:
                for level in range(dense_blocks(length)):
                    self.blocks.append(DenseBlock(size, sizes[0], dilation=2**level))
                    size += sizes[0]
        self.output_size = size

    def forward(self, states: States, mask: Mask | None = None, side_by_side: int = 1) -> Longer:
        """The last `side_by_side` elements stand at one place, right after the others."""
        count = states.shape[1]
        places = torch.arange(count, device=states.device).clamp(max=count - side_by_side)
        for block in self.blocks:
            states = block(states, places, mask)
        return states

    def start(self, batch: int, like: Tensor) -> Experience:
        """No experience yet."""
        attending = [block for block in self.blocks if isinstance(block, AttentionBlock)]
        sizes = [(block.key.out_features, block.value.out_features) for block in attending]
        memories = tuple(
            Memory(like.new_empty(batch, 0, keys), like.new_empty(batch, 0, values)) for keys, values in sizes
        )
        return Experience(like.new_empty(batch, 0, self.output_size), memories)

    def step(self, state: One, experience: Experience) -> Experience:
        """The same as `forward`, one element after the other; what it says is the last of the states."""
        memories: list[Memory] = []
        for block in self.blocks:
            if isinstance(block, AttentionBlock):
                memory = experience.memories[len(memories)].grow(block.remember(state))
                state = block.step(state, memory)
                memories.append(memory)
            elif isinstance(block, DenseBlock):
                state = block.step(state, experience.states)
        return replace(experience, states=torch.cat([experience.states, state], 1), memories=tuple(memories))


def block_sizes(name: str) -> tuple[str, list[int]]:
    """The kind and the sizes of a block that is written `att 64 32` or `tc 128`."""
    kind, *sizes = name.split()
    wanted = {"att": 2, "tc": 1}.get(kind)
    if wanted is None or len(sizes) != wanted or not all(size.isdecimal() and int(size) for size in sizes):
        raise UsageError(
            f"model.blocks has {name!r}: write att KEYS VALUES or tc FILTERS, such as 'att 64 32' or 'tc 128'"
        )
    return kind, list(map(int, sizes))


def dense_blocks(length: int) -> int:
    """How many dilations 1, 2, 4, ... let the last output see all of `length` elements."""
    return max(1, math.ceil(math.log2(length)))


def padding_first(mask: Mask) -> Int[Tensor, "batch steps"]:
    """The order in which all padding stands in front, and the rest as it was."""
    return mask.long().argsort(dim=1, stable=True)
