"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

    encoder block    x = LN(x + MultiHead(x, x, x));           x = LN(x + FFN(x))
    decoder block    y = LN(y + MaskedMultiHead(y, y, y));     y = LN(y + MultiHead(y, x, x));  y = LN(y + FFN(y))
    input            sqrt(d) E[token] + PE(position)
    output           softmax(E y): one matrix E embeds the source, the target and the output

Dropout is where the paper has it: on every sub-layer's output and on the sums of embeddings and positions; attention
weights are not dropped, so training runs on the fused kernel. Positions are counted among the real tokens: padding
on either side changes nothing. `start` and `step` are the decoding protocol: the state is a nest of batch-first
tensors.

Marian (Junczys-Dowmunt et al. 2018), with which the public OPUS-MT models were trained, is this Transformer with
variations, each one field of the Config: another activation, sines before cosines, logits E y + b, and targets that
begin with the padding token. The table of the public names stands at the end.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Memory, masks
from regard.errors import UsageError
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
    positions: str = "sinusoidal"  # or "sinusoidal_halves" or "learned"
    max_length: int = 1024  # rows of the position table; sinusoidal positions go beyond it
    pad: int = 0  # the token that fills short rows
    activation: str = "relu"  # of the feed-forward nets
    scaled: bool = True  # embeddings are multiplied by sqrt(d)
    output_bias: bool = False  # a learnt b in the logits E y + b: how frequent a token is, whatever was said
    starts_with_pad: bool = False  # targets begin with the padding token, which is then not learnt as an input


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=128, hidden_size=256, heads=4, encoder_layers=4, decoder_layers=4, dropout=0.3),
    "small": dict(size=256, hidden_size=1024, heads=4, encoder_layers=3, decoder_layers=3),
    "base": dict(size=512, hidden_size=2048, heads=8, encoder_layers=6, decoder_layers=6),
    "big": dict(size=1024, hidden_size=4096, heads=16, encoder_layers=6, decoder_layers=6, dropout=0.3),
    "opus": dict(activation="silu", positions="sinusoidal_halves", max_length=512, output_bias=True),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step: each layer's source memory and its memory of the target so far."""

    sources: tuple[Memory, ...]
    pasts: tuple[Memory, ...] | None
    place: Int[Tensor, "batch"]  # of the next token


@dataclass(frozen=True)
class Beams:
    """The same for several hypotheses of each sentence, which share one memory of all their tokens."""

    sources: tuple[Memory, ...]
    pasts: tuple[Memory, ...] | None  # beam by beam, step by step
    ancestors: Bool[Tensor, "batch beams keys"]  # which of those tokens are a beam's own
    place: Int[Tensor, "batch"]


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
        mask: Bool[Tensor, "batch ..."] | None = None,
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
        sizes = BlockSizes.of(config)
        fixed = config.pad if config.starts_with_pad else None
        self.embedding = nn.Embedding(config.vocabulary, config.size, padding_idx=fixed)
        nn.init.normal_(self.embedding.weight, std=config.size**-0.5)
        self.scale = math.sqrt(config.size) if config.scaled else 1.0
        # One more column of E, for a state that is always one.
        self.output_bias = nn.Parameter(torch.zeros(config.vocabulary, 1)) if config.output_bias else None
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
        known = self._mask(target, begins=self.config.starts_with_pad)
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
        bias = None if self.output_bias is None else self.output_bias.squeeze(1)
        return F.linear(states, self.output_weight, bias)

    def comparison(
        self, states: Float[Tensor, "count size"]
    ) -> tuple[Float[Tensor, "count width"], Float[Tensor, "vocabulary width"]]:
        """States and words whose inner products are the logits."""
        if self.output_bias is None:
            return states, self.output_weight
        ones = states.new_ones(len(states), 1)
        return torch.cat([states, ones], dim=1), torch.cat([self.output_weight, self.output_bias], dim=1)

    def embed(self, tokens: Tokens, mask: Mask | None, places: Int[Tensor, "batch length"] | None = None) -> States:
        if places is None:
            count = torch.arange(tokens.shape[1], device=tokens.device)
            places = count[None] if mask is None else masks.positions(mask)
        return self.dropout(self.scale * self.embedding(tokens) + self.positions(places))

    def start(self, source: Tokens) -> State:
        """Encode once; decoding begins at place 0."""
        memory, mask = self.encode(source)
        return State(self.decoder.remember(memory, mask), None, source.new_zeros(len(source)))

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the token after `tokens`, and the state in which that token is known."""
        states = self.embed(tokens[:, None], None, state.place[:, None])
        states, pasts = self.decoder(states, state.sources, None, state.pasts)
        return self.logits(states[:, -1]), State(state.sources, pasts, state.place + 1)

    def start_beams(self, source: Tokens) -> Beams:
        """The beams of a sentence are queries of one memory: see regard.decoding.beams."""
        state = self.start(source)
        nobody = torch.ones(len(source), 1, 0, dtype=torch.bool, device=source.device)
        return Beams(state.sources, None, nobody, state.place)

    def step_beams(
        self, tokens: Int[Tensor, "batch beams"], state: Beams
    ) -> tuple[Float[Tensor, "batch beams vocabulary"], Beams]:
        """Every beam sees its ancestors and itself, among the tokens of all."""
        itself = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device).expand(len(tokens), -1, -1)
        visible = torch.cat([state.ancestors, itself], dim=2)
        states = self.embed(tokens, None, state.place[:, None].expand_as(tokens))
        states, pasts = self.decoder(states, state.sources, visible, state.pasts)
        return self.logits(states), Beams(state.sources, pasts, visible, state.place + 1)

    def follow(self, state: Beams, parents: Int[Tensor, "batch beams"]) -> Beams:
        ancestors = state.ancestors.gather(1, parents.unsqueeze(-1).expand(-1, -1, state.ancestors.shape[2]))
        return replace(state, ancestors=ancestors)

    @staticmethod
    def attention_kind(name: str) -> str:
        """Who looks at whom in the attention of this name: `encoder` and `decoder` at themselves, or `cross`."""
        return "encoder" if name.startswith("encoder") else "cross" if name.endswith("cross_attention") else "decoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1: `decoder.layers.0.cross_attention` is in layer 1."""
        return int(name.split(".")[2]) + 1

    def _mask(self, tokens: Tokens, begins: bool = False) -> Mask | None:
        """None when nothing is padded: the kernels are faster without a mask."""
        mask = masks.real_tokens(tokens, self.config.pad)
        mask = masks.begun(mask) if begins else mask
        return None if bool(mask.all()) else mask


FAMILIES = {"transformer": Transformer}


# Public checkpoints (MarianMTModel): their names, and their settings.

PUBLIC_FAMILIES = {"MarianMTModel": "transformer"}
PUBLIC_TRANSPOSED = frozenset({"output_bias"})  # theirs is a row
PUBLIC_PREFIX = "model."
PUBLIC_TIED = {
    "lm_head.weight": "model.shared.weight",
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}
PUBLIC_UNREAD = ("embed_positions.weight",)  # computed here
# Settings that change what the model computes, with the only value of each that is implemented here.
REQUIRED = {
    "model_type": "marian",
    "is_encoder_decoder": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
}
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh"}
_BLOCK = {
    "self_attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention.output": ("self_attn.out_proj",),
    "around_self_attention.norm": ("self_attn_layer_norm",),
    "feed_forward.expand": ("fc1",),
    "feed_forward.contract": ("fc2",),
    "around_feed_forward.norm": ("final_layer_norm",),
}
_CROSS = {
    "cross_attention.query_key_value": ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "around_cross_attention.norm": ("encoder_attn_layer_norm",),
}


def public_names(config: Config) -> dict[str, tuple[str, ...]]:
    """Our parameters and the public tensors they are made of."""
    names: dict[str, tuple[str, ...]] = {"embedding.weight": ("model.shared.weight",)}
    if config.output_bias:
        names["output_bias"] = ("final_logits_bias",)
    stacks = (("encoder", config.encoder_layers, _BLOCK), ("decoder", config.decoder_layers, _BLOCK | _CROSS))
    for stack, layers, table in stacks:
        for layer in range(layers):
            place = f"{stack}.layers.{layer}"
            for ours, theirs in table.items():
                for end in ("weight", "bias"):
                    names[f"{place}.{ours}.{end}"] = tuple(f"model.{place}.{name}.{end}" for name in theirs)
    return names


def public_config(values: Mapping[str, Any]) -> Config:
    """From a public config.json. Their dropout of attention weights and inside the feed-forward net is not read."""
    given = {key: value for key, value in values.items() if value is not None}
    required = REQUIRED | {
        "decoder_vocab_size": given.get("vocab_size", 58101),
        "decoder_attention_heads": given.get("encoder_attention_heads", 16),
        "decoder_ffn_dim": given.get("encoder_ffn_dim", 4096),
        "decoder_start_token_id": given.get("pad_token_id", 58100),
    }
    for key, only in required.items():
        if given.get(key, only) != only:
            raise UsageError(f"config.json: {key} is {given[key]!r}, but only {only!r} is implemented")
    activation = given.get("activation_function", "gelu")
    if activation not in ACTIVATIONS:
        raise UsageError(f"config.json: activation_function {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    return Config(
        vocabulary=given.get("vocab_size", 58101),
        size=given.get("d_model", 1024),
        hidden_size=given.get("encoder_ffn_dim", 4096),
        heads=given.get("encoder_attention_heads", 16),
        encoder_layers=given.get("encoder_layers", 12),
        decoder_layers=given.get("decoder_layers", 12),
        dropout=given.get("dropout", 0.1),
        positions="sinusoidal_halves",
        max_length=given.get("max_position_embeddings", 1024),
        pad=given.get("pad_token_id", 58100),
        activation=ACTIVATIONS[activation],
        scaled=given.get("scale_embedding", False),
        output_bias=True,
        starts_with_pad=True,
    )


def to_public_config(config: Config) -> dict[str, Any]:
    """A config.json that `transformers` loads; which tokens begin and end a text, the tokenizer knows."""
    for field, only in (("positions", "sinusoidal_halves"), ("pre_norm", False)):
        if getattr(config, field) != only:
            raise UsageError(f"a public Marian has {field} {only!r}, but this model {getattr(config, field)!r}")
    return (
        REQUIRED
        | {
            "architectures": ["MarianMTModel"],
            "vocab_size": config.vocabulary,
            "decoder_vocab_size": config.vocabulary,
            "d_model": config.size,
            "encoder_ffn_dim": config.hidden_size,
            "decoder_ffn_dim": config.hidden_size,
            "encoder_attention_heads": config.heads,
            "decoder_attention_heads": config.heads,
            "encoder_layers": config.encoder_layers,
            "decoder_layers": config.decoder_layers,
            "num_hidden_layers": config.encoder_layers,
            "dropout": config.dropout,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "max_position_embeddings": config.max_length,
            "activation_function": {"silu": "swish", "gelu_tanh": "gelu_new"}.get(config.activation, config.activation),
            "scale_embedding": config.scaled,
            "pad_token_id": config.pad,
        }
        | ({"decoder_start_token_id": config.pad} if config.starts_with_pad else {})
    )
