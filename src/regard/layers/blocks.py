"""The Transformer's blocks: attention and a feed-forward net, each with a residual connection and a LayerNorm.

post-norm (the paper)    x = LayerNorm(x + Dropout(f(x)))
pre-norm                 x = x + Dropout(f(LayerNorm(x)))
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import Memory, MultiHeadAttention
from regard.attention.unpadded import on_real_tokens, while_reading
from regard.errors import UsageError
from regard.kernels import ops
from regard.kernels.reference import ACTIVATIONS
from regard.layers.dropout import Dropout

States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class BlockSizes:
    """What every block of a stack has in common."""

    size: int
    hidden_size: int
    heads: int
    dropout: float
    pre_norm: bool
    activation: str = "relu"  # of the feed-forward net: relu, gelu, gelu_tanh or silu
    epsilon: float = 1e-5  # of the LayerNorms

    @classmethod
    def of(cls, config: Any, **given: Any) -> "BlockSizes":
        """As the settings of a model have them, but for what is given."""
        names = [field.name for field in fields(cls) if hasattr(config, field.name)]
        return cls(**{name: getattr(config, name) for name in names} | given)


class FeedForward(nn.Module):
    """W_2 f(W_1 x), the same for every position."""

    def __init__(self, size: int, hidden_size: int, activation: str = "relu"):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UsageError(f"there is no activation called {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        if not size or not hidden_size:
            raise UsageError(f"a feed-forward net of {size} by {hidden_size} has no weights: give both a size")
        self.kind, self.activation = activation, ACTIVATIONS[activation]
        self.expand = nn.Linear(size, hidden_size)
        self.contract = nn.Linear(hidden_size, size)
        for layer in (self.expand, self.contract):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: States) -> States:
        return self.contract(self.activated(states))

    def activated(self, states: States) -> Float[Tensor, "batch length hidden_size"]:
        """f(W_1 x)."""
        return self.activation(self.expand(states))


class Residual(nn.Module):
    """Wraps a sub-layer: normalise, drop out and add, in the order of the block's kind."""

    def __init__(self, sizes: BlockSizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.size, eps=sizes.epsilon)
        self.dropout = Dropout(sizes.dropout)
        self.pre_norm = sizes.pre_norm

    def forward(self, states: States, sublayer: Callable[[States], States]) -> States:
        if self.pre_norm:
            return states + self.dropout(sublayer(self.norm(states)))
        added, norm = self.dropout(sublayer(states)), self.norm
        if not norm._forward_hooks:  # whoever watches the norm has it called
            normed = ops.add_norm(states, added, norm.weight, norm.bias, norm.eps)
            if normed is not None:
                return normed
        return norm(states + added)


class SelfAttentionBlock(nn.Module):
    """The parts of a block whose positions look at one another."""

    def __init__(self, sizes: BlockSizes):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes.size, sizes.heads)
        self.feed_forward = FeedForward(sizes.size, sizes.hidden_size, sizes.activation)
        self.around_self_attention = Residual(sizes)
        self.around_feed_forward = Residual(sizes)


class EncoderBlock(SelfAttentionBlock):
    """Every position looks at every real position."""

    def forward(self, states: States, mask: Bool[Tensor, "batch length"] | None) -> States:
        states = self.around_self_attention(states, lambda x: self.self_attention(x, mask=mask).context)
        return on_real_tokens(
            lambda real: self.around_feed_forward(real, self.feed_forward), while_reading(mask), states
        )


class CausalBlock(SelfAttentionBlock):
    """Every position looks at itself and the positions before it: a decoder that has no source."""

    def forward(
        self, states: States, mask: Bool[Tensor, "batch length"] | None = None, past: Memory | None = None
    ) -> tuple[States, Memory]:
        """The new states, and this block's memory of the text so far: the `past` of what follows."""
        remembered: list[Memory] = []
        states = self.around_self_attention(states, looking_back(self.self_attention, mask, past, remembered))
        return self.around_feed_forward(states, self.feed_forward), remembered[0]


def looking_back(
    attention: MultiHeadAttention, mask: Tensor | None, past: Memory | None, remembered: list[Memory]
) -> Callable[[States], States]:
    """Causal self-attention as a sub-layer; what it attended to is put into `remembered`."""

    def look_back(states: States) -> States:
        attended = attention(states, mask=mask, causal=True, past=past)
        remembered.append(attended.memory)
        return attended.context

    return look_back


class DecoderBlock(nn.Module):
    """Every position looks at the positions before it, then at the source."""

    def __init__(self, sizes: BlockSizes):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes.size, sizes.heads)
        self.cross_attention = MultiHeadAttention(sizes.size, sizes.heads)
        self.feed_forward = FeedForward(sizes.size, sizes.hidden_size, sizes.activation)
        self.around_self_attention = Residual(sizes)
        self.around_cross_attention = Residual(sizes)
        self.around_feed_forward = Residual(sizes)

    def remember(self, source: States, mask: Bool[Tensor, "batch length"] | None) -> Memory:
        """This block's keys and values of the source."""
        return self.cross_attention.remember(source, mask)

    def forward(
        self,
        states: States,
        source: Memory,
        mask: Bool[Tensor, "batch ..."] | None = None,
        past: Memory | None = None,
    ) -> tuple[States, Memory]:
        """The new states, and this block's memory of the target so far: the `past` of the next step."""
        remembered: list[Memory] = []
        states = self.around_self_attention(states, looking_back(self.self_attention, mask, past, remembered))
        states = self.around_cross_attention(states, lambda x: self.cross_attention(x, source).context)
        return self.around_feed_forward(states, self.feed_forward), remembered[0]
