"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

    encoder block    x = LN(x + MultiHead(x, x, x));           x = LN(x + FFN(x))
    decoder block    y = LN(y + MaskedMultiHead(y, y, y));     y = LN(y + MultiHead(y, x, x));  y = LN(y + FFN(y))
    input            sqrt(d) E[token] + PE(position)
    output           softmax(E y): one matrix E embeds the source, the target and the output

Dropout is where the paper has it: on every sub-layer's output and on the sums of embeddings and positions; attention
weights are not dropped, so training runs on the fused kernel. Positions are counted among the real tokens: padding
on either side changes nothing. `start` and `step` are the decoding protocol: the state is a nest of batch-first
tensors.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Memory, masks
from regard.layers.blocks import BlockSizes, DecoderBlock, EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.positions import named_positions

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
Mask = Bool[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class Config:
    """The sizes of a Transformer."""

    vocabulary: int  # entries of the one embedding matrix
    size: int = 512  # d_model
    hidden_size: int = 2048  # d_ff
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    pre_norm: bool = False  # normalise before each sub-layer instead of after the sum
    positions: str = "sinusoidal"  # or "learned"
    max_length: int = 1024  # rows of the position table; sinusoidal positions go beyond it
    pad: int = 0  # the token that fills short rows


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=128, hidden_size=256, heads=4, encoder_layers=4, decoder_layers=4, dropout=0.3),
    "small": dict(size=256, hidden_size=1024, heads=4, encoder_layers=3, decoder_layers=3),
    "base": dict(size=512, hidden_size=2048, heads=8, encoder_layers=6, decoder_layers=6),
    "big": dict(size=1024, hidden_size=4096, heads=16, encoder_layers=6, decoder_layers=6, dropout=0.3),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step: each layer's source memory and its memory of the target so far."""

    sources: tuple[Memory, ...]
    pasts: tuple[Memory, ...] | None
    place: Int[Tensor, "batch"]  # of the next token


class Encoder(nn.Module):
    """A stack of encoder blocks over embedded tokens."""

    def __init__(self, config: Config, sizes: BlockSizes):
        super().__init__()
        self.layers = nn.ModuleList(EncoderBlock(sizes) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.size) if config.pre_norm else nn.Identity()

    def forward(self, states: States, mask: Mask | None) -> States:
        for layer in self.layers:
            states = layer(states, mask)
        return self.norm(states)


class Decoder(nn.Module):
    """A stack of decoder blocks, each with its own memory of the source."""

    def __init__(self, config: Config, sizes: BlockSizes):
        super().__init__()
        self.layers = nn.ModuleList(DecoderBlock(sizes) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.size) if config.pre_norm else nn.Identity()

    def remember(self, source: States, mask: Mask | None) -> tuple[Memory, ...]:
        """Each layer's keys and values of the source, projected once for the whole target."""
        layers = cast(Iterable[DecoderBlock], self.layers)
        return tuple(layer.remember(source, mask) for layer in layers)

    def forward(
        self,
        states: States,
        sources: tuple[Memory, ...],
        mask: Mask | None = None,
        pasts: tuple[Memory, ...] | None = None,
    ) -> tuple[States, tuple[Memory, ...]]:
        memories = []
        for number, layer in enumerate(self.layers):
            past = None if pasts is None else pasts[number]
            states, memory = layer(states, sources[number], mask, past)
            memories.append(memory)
        return self.norm(states), tuple(memories)


class Transformer(nn.Module):
    """An encoder-decoder over one shared vocabulary."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        sizes = BlockSizes(config.size, config.hidden_size, config.heads, config.dropout, config.pre_norm)
        self.embedding = nn.Embedding(config.vocabulary, config.size)
        nn.init.normal_(self.embedding.weight, std=config.size**-0.5)
        self.positions = named_positions(config.positions, config.max_length, config.size)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, sizes)
        self.decoder = Decoder(config, sizes)

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each target token."""
        return self.logits(self.decode(source, target))

    def decode(self, source: Source, target: Tokens) -> States:
        """Teacher-forced decoder states: one fused pass over the whole target."""
        memory, mask = self.encode(source)
        known = self._mask(target)
        states, _ = self.decoder(self.embed(target, known), self.decoder.remember(memory, mask), known)
        return states

    def encode(self, source: Tokens) -> tuple[States, Mask | None]:
        mask = self._mask(source)
        return self.encoder(self.embed(source, mask), mask), mask

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        """The rows that states are compared with to predict a token: the embeddings themselves."""
        return self.embedding.weight

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return F.linear(states, self.output_weight)

    def embed(self, tokens: Tokens, mask: Mask | None, places: Int[Tensor, "batch length"] | None = None) -> States:
        if places is None:
            count = torch.arange(tokens.shape[1], device=tokens.device)
            places = count[None] if mask is None else masks.positions(mask)
        return self.dropout(math.sqrt(self.config.size) * self.embedding(tokens) + self.positions(places))

    def start(self, source: Tokens) -> State:
        """Encode once; decoding begins at place 0."""
        memory, mask = self.encode(source)
        return State(self.decoder.remember(memory, mask), None, source.new_zeros(len(source)))

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the token after `tokens`, and the state in which that token is known."""
        states = self.embed(tokens[:, None], None, state.place[:, None])
        states, pasts = self.decoder(states, state.sources, None, state.pasts)
        return self.logits(states[:, -1]), State(state.sources, pasts, state.place + 1)

    @staticmethod
    def attention_kind(name: str) -> str:
        """Who looks at whom in the attention of this name: `encoder` and `decoder` at themselves, or `cross`."""
        return "encoder" if name.startswith("encoder") else "cross" if name.endswith("cross_attention") else "decoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1: `decoder.layers.0.cross_attention` is in layer 1."""
        return int(name.split(".")[2]) + 1

    def _mask(self, tokens: Tokens) -> Mask | None:
        """None when nothing is padded: the kernels are faster without a mask."""
        mask = masks.real_tokens(tokens, self.config.pad)
        return None if bool(mask.all()) else mask
