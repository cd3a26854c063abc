"""GPT-2 of "Language Models are Unsupervised Multitask Learners" (Radford et al. 2019).

    input     x = E[token] + P[place]                     one learnt vector per token and per place
    block     x = x + Attention(LN(x))                    every token looks at itself and at those before it
              x = x + W_2 gelu(W_1 LN(x))                 gelu by its tanh approximation
    output    p(next token) = softmax(E LN(x))            the embedding once more, without a bias;
                                                          with `tied: false` a matrix of its own in place of E

Weights begin as N(0, .02), positions as N(0, .01), and the matrices that add to the residual stream, of which there are
2 * layers, are smaller by the square root of that number. Dropout is on the input and on what each half of a block
adds; attention weights are not dropped, so training runs on the fused kernel.

`read` takes text in pieces: what is carried holds each layer's keys and values (the KV cache). Places are counted from
the beginning of a window of at most `context` tokens. When a window is full, the older half of it is forgotten and the
rest is read again from place 0, because keys and values that know their old places cannot slide. So which tokens a
token sees depends on its number in the text alone, never on the pieces it was read in, its padding or its company.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Memory, masks
from regard.errors import UsageError
from regard.layers.blocks import BlockSizes, CausalBlock
from regard.layers.dropout import Dropout

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class Config:
    """The sizes of a GPT-2."""

    vocabulary: int = 50257
    context: int = 1024  # places: the most tokens of a window
    size: int = 768
    hidden_size: int = 3072
    heads: int = 12
    layers: int = 12
    dropout: float = 0.1
    activation: str = "gelu_tanh"
    epsilon: float = 1e-5  # of the LayerNorms
    tied: bool = True  # the output matrix is the embedding
    pad: int = -1  # the token that fills short rows; GPT-2's own vocabulary has none

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "layers"):
            if getattr(self, name) < 1:
                raise UsageError(f"model.{name} is {getattr(self, name)} but must be at least 1")


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=128, hidden_size=512, heads=4, layers=4, context=128),
    "char": dict(size=256, hidden_size=1024, heads=8, layers=4, context=128),
    "small": dict(size=768, hidden_size=3072, heads=12, layers=12),
    "medium": dict(size=1024, hidden_size=4096, heads=16, layers=24),
    "large": dict(size=1280, hidden_size=5120, heads=20, layers=36),
    "xl": dict(size=1600, hidden_size=6400, heads=25, layers=48),
}


@dataclass(frozen=True)
class Past:
    """The window so far: its tokens, and what each layer remembers of them (None: they must be read again)."""

    tokens: Tokens
    memories: tuple[Memory, ...] | None


class GPT2(nn.Module):
    """A stack of causal blocks that says, after each token, how probable every next one is."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        sizes = BlockSizes.of(config, pre_norm=True)
        self.embedding = nn.Embedding(config.vocabulary, config.size)
        self.positions = nn.Embedding(config.context, config.size)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(CausalBlock(sizes) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.size, eps=config.epsilon)
        self.lm_head = None if config.tied else nn.Linear(config.size, config.vocabulary, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                adds = name.endswith(("self_attention.output.weight", "feed_forward.contract.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.layers) if adds else 0.02)
        nn.init.normal_(self.positions.weight, std=0.01)

    @property
    def context(self) -> int:
        """The most tokens the model can hold at once."""
        return self.config.context

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each token."""
        return self.logits(self.read(tokens)[0])

    def read(self, tokens: Tokens, carried: Past | None = None) -> tuple[States, Past]:
        """One state per token, to be compared with `output_weight`; and what the tokens that follow must know."""
        past = Past(tokens[:, :0], None) if carried is None else carried
        pieces = []
        while True:
            count = self._fitting(tokens, past)
            states, past = self._read(tokens[:, :count], past)
            pieces.append(states)
            tokens = tokens[:, count:]
            if not tokens.shape[1]:
                return torch.cat(pieces, dim=1) if len(pieces) > 1 else states, past
            past = self._slid(past)

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        """The rows that states are compared with to predict a token: the embeddings, unless the head has its own."""
        return self.embedding.weight if self.lm_head is None else self.lm_head.weight

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return F.linear(states, self.output_weight)

    def _fitting(self, tokens: Tokens, past: Past) -> int:
        """How many columns of `tokens` can be read before the first row's window is full."""
        if past.tokens.shape[1] + tokens.shape[1] <= self.config.context:
            return tokens.shape[1]
        after = self._real(past.tokens).sum(1, keepdim=True) + self._real(tokens).cumsum(1)
        return int((after <= self.config.context).all(0).sum())

    def _slid(self, past: Past) -> Past:
        """Rows whose window is full forget its older half; the others keep what they have."""
        context = self.config.context
        real = self._real(past.tokens)
        kept = torch.where(real.sum(1, keepdim=True) < context, context, context - stride(context))
        real &= real.flip(1).cumsum(1).flip(1) <= kept  # counted from the window's end
        tokens = past.tokens.masked_fill(~real, self.config.pad)
        return Past(tokens[:, real.any(0)], None)

    def _read(self, tokens: Tokens, past: Past) -> tuple[States, Past]:
        """A piece that fits into the window, after its past."""
        window = torch.cat([past.tokens, tokens], dim=1)
        new = window if past.memories is None else tokens
        mask = self._real(new)
        before = self._real(window).sum(1, keepdim=True) - mask.sum(1, keepdim=True)
        places = (before + mask.cumsum(1) - 1).clamp(min=0)
        states = self.dropout(self.embedding(new.clamp(min=0)) + self.positions(places))
        whole = None if bool(mask.all()) else mask  # the kernels are faster without a mask
        memories = []
        for number, layer in enumerate(self.layers):
            states, memory = layer(states, whole, None if past.memories is None else past.memories[number])
            memories.append(memory)
        states = states[:, new.shape[1] - tokens.shape[1] :]
        return self.norm(states), Past(window, tuple(memories))

    def _real(self, tokens: Tokens) -> Tensor:
        return masks.real_tokens(tokens, self.config.pad)

    @staticmethod
    def over_tokens(weights: Float[Tensor, "batch heads tokens keys"]) -> Float[Tensor, "batch heads tokens keys"]:
        """Recorded weights by the token looked at: as they are."""
        return weights

    @staticmethod
    def attention_kind(name: str) -> str:
        """Every attention looks at what its own sequence said before: `decoder`."""
        return "decoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1: `layers.0.self_attention` is in layer 1."""
        return int(name.split(".")[1]) + 1


FAMILIES = {"gpt2": GPT2}


def stride(context: int) -> int:
    """How many tokens a full window forgets: half of them."""
    return max(1, context // 2)


# Public checkpoints (GPT2LMHeadModel): their names, and their settings.

PUBLIC_PREFIX = "transformer."  # which some are saved without
PUBLIC_TIED = {"lm_head.weight": "transformer.wte.weight"}
PUBLIC_UNREAD = (".attn.bias", ".attn.masked_bias")  # the causal mask
PUBLIC_TRANSPOSED = frozenset({"query_key_value.weight", "output.weight", "expand.weight", "contract.weight"})
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
# Settings that change what the model computes, with the only value of each that is implemented here.
REQUIRED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


def public_names(config: Config) -> dict[str, tuple[str, ...]]:
    """Our parameters and the public tensors they are made of."""
    parts = {
        "around_self_attention.norm": "ln_1",
        "self_attention.query_key_value": "attn.c_attn",
        "self_attention.output": "attn.c_proj",
        "around_feed_forward.norm": "ln_2",
        "feed_forward.expand": "mlp.c_fc",
        "feed_forward.contract": "mlp.c_proj",
    }
    modules = {"norm": "ln_f"} | {
        f"layers.{number}.{ours}": f"h.{number}.{theirs}"
        for number in range(config.layers)
        for ours, theirs in parts.items()
    }
    names: dict[str, tuple[str, ...]] = {
        f"{ours}.{kind}": (f"transformer.{theirs}.{kind}",)
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    }
    embeddings = {"embedding": "wte", "positions": "wpe"}
    names |= {f"{ours}.weight": (f"transformer.{theirs}.weight",) for ours, theirs in embeddings.items()}
    return names if config.tied else names | {"lm_head.weight": ("lm_head.weight",)}


def public_config(values: Mapping[str, Any]) -> Config:
    """From a public config.json. Their dropout of attention weights and of the input is not read: see above."""
    for key, only in REQUIRED.items():
        if values.get(key, only) != only:
            raise UsageError(f"config.json: {key} is {values[key]!r}, but only {only!r} is implemented")
    activation = values.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise UsageError(f"config.json: activation_function {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    size = values.get("n_embd", 768)
    return Config(
        vocabulary=values.get("vocab_size", 50257),
        context=values.get("n_positions", 1024),
        size=size,
        hidden_size=values.get("n_inner") or 4 * size,
        heads=values.get("n_head", 12),
        layers=values.get("n_layer", 12),
        dropout=values.get("resid_pdrop", 0.1),
        activation=ACTIVATIONS[activation],
        epsilon=values.get("layer_norm_epsilon", 1e-5),
        tied=values.get("tie_word_embeddings", True),
    )


def to_public_config(config: Config) -> dict[str, Any]:
    """A config.json that `transformers` loads; which tokens begin and end a text, the tokenizer knows."""
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if config.activation not in activations:
        raise UsageError(f"a public GPT-2 has no activation {config.activation!r}")
    return REQUIRED | {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocabulary,
        "n_positions": config.context,
        "n_embd": config.size,
        "n_inner": config.hidden_size,
        "n_head": config.heads,
        "n_layer": config.layers,
        "activation_function": activations[config.activation],
        "layer_norm_epsilon": config.epsilon,
        "tie_word_embeddings": config.tied,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
    }
