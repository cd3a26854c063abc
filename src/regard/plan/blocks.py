"""What the Transformer's blocks cost, put together as regard.layers.blocks puts together the blocks.

Of size d, hidden size f and h heads, an encoder block over N tokens in rows of n costs

    forward    N (8 d^2 + 4 d f + 4 n d) FLOPs         kept    N (8 d + 2 f + h + 4) numbers and 2 N d bytes

and one less f with relu, no bytes without dropout. Pre-norm and post-norm keep the same: the sum before each norm, and
what came out of it. A decoder block adds the attention to the source.
"""

from dataclasses import dataclass

from regard.layers.blocks import BlockSizes
from regard.plan.cost import Cost, activation, attention, dropout, linear, norm


@dataclass(frozen=True)
class Tokens:
    """A batch: equally long rows."""

    rows: float
    length: float

    @property
    def count(self) -> float:
        return self.rows * self.length


def encoder_block(tokens: Tokens, sizes: BlockSizes) -> Cost:
    """Also that of a decoder without a source: what is masked is counted."""
    return self_attention(tokens, sizes) + feed_forward(tokens, sizes)


def decoder_block(tokens: Tokens, source: Tokens, sizes: BlockSizes) -> Cost:
    return self_attention(tokens, sizes) + cross_attention(tokens, source, sizes) + feed_forward(tokens, sizes)


def self_attention(tokens: Tokens, sizes: BlockSizes) -> Cost:
    count, size = tokens.count, sizes.size
    projected = linear(count, size, 3 * size) + Cost(narrow=3 * count * size)  # the queries, keys and values are kept
    read = attention(tokens.rows, tokens.length, tokens.length, size, sizes.heads)
    return projected + read + linear(count, size, size, keeps=False) + residual(tokens, sizes)


def cross_attention(tokens: Tokens, source: Tokens, sizes: BlockSizes) -> Cost:
    count, size = tokens.count, sizes.size
    query = linear(count, size, size) + Cost(narrow=count * size)
    # All layers read the same states of the source, which are kept once.
    memory = linear(source.count, size, 2 * size, keeps=False) + Cost(narrow=2 * source.count * size)
    read = attention(tokens.rows, tokens.length, source.length, size, sizes.heads)
    return query + memory + read + linear(count, size, size, keeps=False) + residual(tokens, sizes)


def feed_forward(tokens: Tokens, sizes: BlockSizes) -> Cost:
    count, size, hidden = tokens.count, sizes.size, sizes.hidden_size
    inner = linear(count, size, hidden) + activation(count * hidden, sizes.activation) + linear(count, hidden, size)
    return inner + residual(tokens, sizes)


def residual(tokens: Tokens, sizes: BlockSizes) -> Cost:
    return norm(tokens.count, sizes.size) + dropout(tokens.count * sizes.size, sizes.dropout)


def working_numbers(tokens: Tokens, sizes: BlockSizes) -> float:
    """Gradients alive at once on the way back through a block: two of the hidden size, two of the states."""
    return tokens.count * (2 * sizes.hidden_size + 2 * sizes.size)
