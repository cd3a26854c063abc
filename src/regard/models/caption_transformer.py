"""A Transformer decoder over the regions of a picture: Show, Attend and Tell with the blocks of Vaswani et al. 2017.

    x_i    = LN(W a_i)                                      the regions, as wide as the words
    y      = sqrt(d) E[word] + PE(position)
    block  y = y + MaskedMultiHead(LN y);   y = y + MultiHead(LN y, x, x);   y = y + FFN(LN y)
    p      = softmax(E LN(y))

Nothing is recurrent: all words of a caption are one pass, and each of several heads in each layer looks at the picture
in its own way. The encoder has no blocks of its own: the convolutions have mixed the regions already.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, arange, nn

from regard.attention import Memory, masks
from regard.layers.blocks import BlockSizes, DecoderBlock
from regard.layers.dropout import Dropout
from regard.layers.image_encoder import ImageEncoder, Images, Regions
from regard.layers.positions import SinusoidalPositions
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class Config:
    """The sizes of the captioner."""

    vocabulary: int
    backbone: str = "small_cnn"  # or timm:NAME
    image_size: int = 128  # pixels of each side
    size: int = 512  # d
    hidden_size: int = 2048
    heads: int = 8
    layers: int = 6
    dropout: float = 0.1
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(size=256, hidden_size=512, heads=4, layers=2, dropout=0.3),
    "base": dict(size=512, hidden_size=2048, heads=8, layers=6),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step: each layer's memory of the picture and of the caption so far."""

    regions: tuple[Memory, ...]
    pasts: tuple[Memory, ...] | None
    place: Int[Tensor, "batch"]  # of the next word


class CaptionTransformer(SaysWords):
    """Pre-norm decoder blocks whose source is a picture."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = ImageEncoder(config.backbone, config.image_size)
        self.region = nn.Linear(self.encoder.size, config.size)  # W
        self.region_norm = nn.LayerNorm(config.size)
        self.words = Words(config.vocabulary, config.size, config.size, tied=True, dropout=0.0)
        self.positions = SinusoidalPositions(128, config.size)
        sizes = BlockSizes.of(config, pre_norm=True)
        self.layers = nn.ModuleList(DecoderBlock(sizes) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.size)
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Images, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the word after each target word."""
        return self.logits(self.decode(self.encoder(images), target))

    def decode(self, regions: Regions, target: Tokens) -> States:
        """Teacher-forced states: one pass over the whole caption."""
        mask = masks.real_tokens(target, self.config.pad)
        whole = None if bool(mask.all()) else mask
        return self._pass(self._embed(target, masks.positions(mask)), self._remember(regions), whole)[0]

    def start(self, regions: Regions) -> State:
        """Each layer's keys and values of the regions, projected once."""
        places = arange(1, device=regions.device).expand(len(regions))
        return State(self._remember(regions), None, places)

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the word after `tokens`, and the state in which that word is known."""
        words = self._embed(tokens[:, None], state.place[:, None])
        states, pasts = self._pass(words, state.regions, None, state.pasts)
        return self.logits(states[:, -1]), State(state.regions, pasts, state.place + 1)

    def _remember(self, regions: Regions) -> tuple[Memory, ...]:
        states = self.dropout(self.region_norm(self.region(regions)))
        return tuple(layer.remember(states, None) for layer in cast(Iterable[DecoderBlock], self.layers))

    def _embed(self, tokens: Tokens, places: Tokens) -> States:
        return self.dropout(math.sqrt(self.config.size) * self.words(tokens) + self.positions(places))

    def _pass(
        self,
        states: States,
        regions: tuple[Memory, ...],
        mask: Bool[Tensor, "batch length"] | None,
        pasts: tuple[Memory, ...] | None = None,
    ) -> tuple[States, tuple[Memory, ...]]:
        known = []
        for number, layer in enumerate(self.layers):
            states, memory = layer(states, regions[number], mask, None if pasts is None else pasts[number])
            known.append(memory)
        return self.norm(states), tuple(known)

    @staticmethod
    def attention_kind(name: str) -> str:
        """`decoder` looks at the words so far, `cross` at the picture."""
        return "cross" if name.endswith("cross_attention") else "decoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1."""
        return int(name.split(".")[1]) + 1


FAMILIES = {"caption-transformer": CaptionTransformer}
