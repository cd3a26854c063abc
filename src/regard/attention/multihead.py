"""Multi-head attention (Vaswani et al. 2017).

    head_r = softmax(q_r k_r^T / sqrt(d)) v_r,    y = W_o [head_1; ...; head_h]

Self-attention runs one fused projection for queries, keys and values. A memory can be projected once and asked
many times (cross-attention), or grow step by step (a KV cache).
"""

from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import dot_product, masks
from regard.attention.memory import Attended, Memory
from regard.attention.unpadded import on_real_tokens, while_reading
from regard.errors import RegardError

States = Float[Tensor, "batch length state_size"]


class Projection(nn.Linear):
    """A linear layer of which some outputs can be had without the others."""

    def rows(self, states: States, start: int, stop: int) -> Float[Tensor, "batch length part"]:
        """The outputs `start:stop` alone."""
        bias: Tensor | None = self.bias  # the annotation of nn.Linear forgets that there may be none
        return F.linear(states, self.weight[start:stop], None if bias is None else bias[start:stop])


class MultiHeadAttention(nn.Module):
    """`heads` attentions side by side, each over `size / heads` dimensions.

    Keys and values may come with sizes of their own (`key_size`, `value_size`); when all sizes are equal the three
    projections are one matrix. With a `window`, states that attend to themselves see those at most so far away.
    """

    keeps_weights = False  # while somebody records all of them (regard.attention.recording)

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        bias: bool = True,
        window: int | None = None,
    ):
        super().__init__()
        if heads < 1 or size % heads:
            raise RegardError(f"a size of {size} cannot be split over {heads} heads: choose a divisor of {size}")
        if window is not None and window < 0:
            raise RegardError(f"a window of {window} places is none: choose 0 or more")
        self.size, self.heads, self.window = size, heads, window
        key_size = size if key_size is None else key_size
        value_size = key_size if value_size is None else value_size
        self.shares_projection = size == key_size == value_size
        if self.shares_projection:
            self.query_key_value = Projection(size, 3 * size, bias=bias)
        else:
            self.query = nn.Linear(size, size, bias=bias)
            self.key = nn.Linear(key_size, size, bias=bias)
            self.value = nn.Linear(value_size, size, bias=bias)
        self.output = nn.Linear(size, size, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier, for each of the three projections by itself even when they share a matrix."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                for projection in parameter.split(self.size):
                    nn.init.xavier_uniform_(projection)

    def remember(
        self,
        states: States,
        mask: Bool[Tensor, "batch keys"] | None = None,
        values: Float[Tensor, "batch length value_size"] | None = None,
    ) -> Memory:
        """Keys and values, projected once. `values` are read in place of `states` when given."""
        if not self.shares_projection:
            return Memory(
                self._split(self.key(states)), self._split(self.value(states if values is None else values)), mask
            )
        if values is None:
            keys, read = self._project(states, self.size, 3 * self.size, mask)
        else:
            (keys,) = self._project(states, self.size, 2 * self.size)
            (read,) = self._project(values, 2 * self.size, 3 * self.size)
        return Memory(keys, read, mask)

    def forward(
        self,
        states: States,
        memory: Memory | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        past: Memory | None = None,
    ) -> Attended:
        """Ask `memory`, or, without one, let the states attend to themselves (and to their `past`).

        `mask` is over the states' own keys [batch, length] when they attend to themselves; a mask with a query
        axis [batch or 1, queries, keys] narrows either kind of attention. The result's `.memory` is what was
        attended to: give it back as `past` at the next step.
        """
        narrow = mask if mask is not None and mask.dim() == 3 else None
        over_keys = mask if narrow is None else None
        window = self.window if memory is None else None
        if memory is None:
            query, own = self._query_and_own_memory(states, over_keys)
            memory = own if past is None else past.grow(own)
        elif past is not None or over_keys is not None:
            raise RegardError("a memory brings its own mask and past: give them to remember(...) and grow(...)")
        else:
            query = self._query(states)
        allowed = masks.over_queries(masks.over_queries(memory.mask))  # [batch, 1, 1, keys]
        allowed = masks.combine(allowed, None if narrow is None else narrow.unsqueeze(1))
        attended = dot_product.attend(
            query, memory.keys, memory.values, mask=allowed, causal=causal, window=window, keep=self.keeps_weights
        )
        merged = attended.context.transpose(1, 2).flatten(2)  # [batch, queries, size]
        return Attended(self.output(merged), attended.weights_of, memory)

    def _query(self, states: States) -> Tensor:
        if self.shares_projection:
            return self._project(states, 0, self.size)[0]
        return self._split(self.query(states))

    def _query_and_own_memory(self, states: States, mask: Tensor | None) -> tuple[Tensor, Memory]:
        if self.shares_projection:
            query, keys, values = self._project(states, 0, 3 * self.size, mask)
            return query, Memory(keys, values, mask)
        return self._query(states), self.remember(states, mask)

    def _project(self, states: States, start: int, stop: int, mask: Tensor | None = None) -> list[Tensor]:
        """The rows `start:stop` of the shared projection, cut into heads; nothing is wanted of what `mask` hides."""
        whole = stop - start == 3 * self.size
        joint = self.query_key_value
        product = joint if whole else partial(joint.rows, start=start, stop=stop)
        projected = on_real_tokens(product, while_reading(mask), states)
        # [batch, length, parts, heads, head_size]: one view for all parts, of which a step makes so many
        apart = projected.view(*projected.shape[:-1], (stop - start) // self.size, self.heads, self.size // self.heads)
        return list(apart.permute(2, 0, 3, 1, 4).unbind(0))

    def _split(self, projected: Float[Tensor, "batch length size"]) -> Float[Tensor, "batch heads length head_size"]:
        return projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"size={self.size}, heads={self.heads}, head_size={self.size // self.heads}"
