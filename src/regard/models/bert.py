"""BERT: a Transformer encoder that learns by filling gaps (Devlin et al. 2019).

    input             x_i = LN(E[token_i] + S[segment_i] + P[i])
    block             x = LN(x + MultiHead(x, x, x));   x = LN(x + W_2 gelu(W_1 x))
    masked words      p(word at i) = softmax(E LN(gelu(W x_i)) + b):   one matrix E embeds and predicts
    pooler            c = tanh(W x_[CLS])
    next sentence     p(B follows A) = softmax(W c)
    classifier        p(label) = softmax(W c)
    tagger            p(tag of i) = softmax(W x_i)
    embedder          the mean of all x_i, or x_[CLS]

A row is [CLS] A [SEP] or [CLS] A [SEP] B [SEP]; which segment a token belongs to is told by the [SEP] before it, so a
model reads one tensor of tokens. Positions are counted among the real tokens: padding on either side changes nothing.
Dropout is on the sub-layers and on the embeddings; the attention weights are not dropped, so training runs on the fused
kernel. All heads share the names of the encoder's tensors: one can start from the weights of another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import masks
from regard.errors import UsageError
from regard.layers.blocks import ACTIVATIONS, BlockSizes, EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.pooling import POOLINGS, first_state
from regard.layers.positions import LearnedPositions

Tokens = Int[Tensor, "batch length"]
Mask = Bool[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]


@dataclass(frozen=True)
class Config:
    """The sizes of a BERT."""

    vocabulary: int
    size: int = 768
    hidden_size: int = 3072
    heads: int = 12
    layers: int = 12
    dropout: float = 0.1
    activation: str = "gelu"
    epsilon: float = 1e-12  # of the LayerNorms
    max_length: int = 512  # tokens of a row, the special ones included
    segments: int = 2
    pad: int = 0
    separator: int = 3  # [SEP]: what comes after the first one is the second segment
    next_sentence: bool = True  # pre-training: whether it also says if B follows A
    labels: int = 2  # of the classifier and the tagger
    pooling: str = "mean"  # of the embedder: mean or cls
    normalize: bool = False  # of the embedder: whether its vectors have length one

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UsageError(f"there is no pooling called {self.pooling!r}: choose one of {', '.join(POOLINGS)}")


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(layers=2, size=128, heads=2, hidden_size=512),
    "mini": dict(layers=4, size=256, heads=4, hidden_size=1024),
    "small": dict(layers=4, size=512, heads=8, hidden_size=2048),
    "medium": dict(layers=8, size=512, heads=8, hidden_size=2048),
    "base": dict(layers=12, size=768, heads=12, hidden_size=3072),
    "large": dict(layers=24, size=1024, heads=16, hidden_size=4096),
    "minilm": dict(layers=6, size=384, heads=12, hidden_size=1536),  # Wang et al. 2020: all-MiniLM-L6-v2
}


class Encoder(nn.Module):
    """Embeddings of token, segment and place, and a stack of blocks: what all the models below share."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        sizes = BlockSizes.of(config, pre_norm=False)
        self.embedding = nn.Embedding(config.vocabulary, config.size)
        self.segments = nn.Embedding(config.segments, config.size)
        self.positions = LearnedPositions(config.max_length, config.size)
        self.norm = nn.LayerNorm(config.size, eps=config.epsilon)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderBlock(sizes) for _ in range(config.layers))

    def forward(self, tokens: Tokens, segments: Tokens | None = None) -> tuple[States, Mask | None]:
        """A state per token, and which tokens are real (None: all, for which the kernels are faster)."""
        real = masks.real_tokens(tokens, self.config.pad)
        segments = self.segments_of(tokens) if segments is None else segments
        states = self.embedding(tokens.clamp(min=0)) + self.segments(segments) + self.positions(masks.positions(real))
        states = self.dropout(self.norm(states))
        mask = None if bool(real.all()) else real
        for layer in self.layers:
            states = layer(states, mask)
        return states, mask

    def segments_of(self, tokens: Tokens) -> Tokens:
        """How many [SEP] stand before each token; a third text would belong to the second segment."""
        ends = (tokens == self.config.separator).long()
        return (ends.cumsum(1) - ends).clamp(max=self.config.segments - 1)


class Pooler(nn.Module):
    """c = tanh(W x_[CLS]): one vector for the whole row."""

    def __init__(self, size: int):
        super().__init__()
        self.dense = nn.Linear(size, size)

    def forward(self, states: States, mask: Mask | None) -> Vectors:
        return torch.tanh(self.dense(first_state(states, mask)))


class WordHead(nn.Module):
    """LN(gelu(W x_i)) and a bias for every word; the words themselves are the encoder's embeddings."""

    def __init__(self, config: Config):
        super().__init__()
        self.dense = nn.Linear(config.size, config.size)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.size, eps=config.epsilon)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        return self.norm(self.activation(self.dense(states)))


def initialise(module: nn.Module) -> None:
    """As the authors do it: N(0, 0.02) in every matrix, zeros in every bias."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def layer_number(name: str) -> int:
    """The layer an attention belongs to, counted from 1: `encoder.layers.0.self_attention` is in layer 1."""
    return int(name.split(".")[2]) + 1


class Bert(nn.Module):
    """BERT as it is pre-trained: which word stood behind each mask, and whether B follows A."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.words = WordHead(config)
        self.pooler = Pooler(config.size) if config.next_sentence else None
        self.next = nn.Linear(config.size, 2) if config.next_sentence else None
        self.apply(initialise)

    def forward(self, tokens: Tokens, segments: Tokens | None = None) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the word at each place."""
        states, _ = self.encoder(tokens, segments)
        return self.logits(states)

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return F.linear(self.words(states), self.encoder.embedding.weight, self.words.bias)

    def next_logits(self, states: States, mask: Mask | None) -> Float[Tensor, "batch 2"]:
        """Of `B follows A` and `B comes from elsewhere`."""
        if self.pooler is None or self.next is None:
            raise UsageError("this BERT was built with next_sentence: false and cannot say whether B follows A")
        return self.next(self.pooler(states, mask))

    def comparison(self, states: Float[Tensor, "count size"]) -> tuple[Tensor, Float[Tensor, "vocabulary width"]]:
        """States and words whose inner products are the logits, the bias being one more column of the words."""
        ones = states.new_ones(len(states), 1)
        weight = torch.cat([self.encoder.embedding.weight, self.words.bias[:, None]], dim=1)
        return torch.cat([self.words(states), ones], dim=1), weight

    attention_layer = staticmethod(layer_number)


class BertClassifier(nn.Module):
    """Labels a text, or a pair of texts."""

    reads: ClassVar[str] = "tokens"
    frames: ClassVar[bool] = True  # its rows are [CLS] A [SEP] or [CLS] A [SEP] B [SEP]

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.pooler = Pooler(config.size)
        self.dropout = Dropout(config.dropout)
        self.label = nn.Linear(config.size, config.labels)
        self.apply(initialise)

    def forward(self, tokens: Tokens, segments: Tokens | None = None) -> Float[Tensor, "batch labels"]:
        return self.label(self.dropout(self.pooler(*self.encoder(tokens, segments))))

    attention_layer = staticmethod(layer_number)


class BertTagger(nn.Module):
    """Labels every token of a text."""

    reads: ClassVar[str] = "tokens"
    frames: ClassVar[bool] = True

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.dropout = Dropout(config.dropout)
        self.label = nn.Linear(config.size, config.labels)
        self.apply(initialise)

    def forward(self, tokens: Tokens, segments: Tokens | None = None) -> Float[Tensor, "batch length labels"]:
        states, _ = self.encoder(tokens, segments)
        return self.label(self.dropout(states))

    attention_layer = staticmethod(layer_number)


class BertEmbedder(nn.Module):
    """One vector per text, to compare texts by."""

    frames: ClassVar[bool] = True

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.pool = POOLINGS[config.pooling]
        self.apply(initialise)

    def forward(self, tokens: Tokens, segments: Tokens | None = None) -> Vectors:
        vectors = self.pool(*self.encoder(tokens, segments))
        return F.normalize(vectors, dim=-1) if self.config.normalize else vectors

    attention_layer = staticmethod(layer_number)


FAMILIES = {"bert": Bert, "bert-classifier": BertClassifier, "bert-tagger": BertTagger, "bert-embedder": BertEmbedder}


# Public checkpoints: what Hugging Face calls these tensors and settings.

PUBLIC_FAMILIES = {
    "BertForPreTraining": "bert",
    "BertForMaskedLM": "bert",
    "BertForSequenceClassification": "bert-classifier",
    "BertForTokenClassification": "bert-tagger",
    "BertModel": "bert-embedder",
}
PUBLIC_PREFIX = "bert."  # which the bare encoder is saved without
PUBLIC_TRANSPOSED: frozenset[str] = frozenset()
PUBLIC_TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# A plain count, and a pooler that the head has no use for.
PUBLIC_UNREAD = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")

_EMBEDDINGS = {
    "embedding.weight": "word_embeddings.weight",
    "segments.weight": "token_type_embeddings.weight",
    "positions.table": "position_embeddings.weight",
    "norm.weight": "LayerNorm.weight",
    "norm.bias": "LayerNorm.bias",
}
_BLOCK = {
    "self_attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "self_attention.output": ("attention.output.dense",),
    "around_self_attention.norm": ("attention.output.LayerNorm",),
    "feed_forward.expand": ("intermediate.dense",),
    "feed_forward.contract": ("output.dense",),
    "around_feed_forward.norm": ("output.LayerNorm",),
}
_WORDS = {"words.dense": "cls.predictions.transform.dense", "words.norm": "cls.predictions.transform.LayerNorm"}
_NEXT = {"pooler.dense": "bert.pooler.dense", "next": "cls.seq_relationship"}
_HEADS: dict[str, dict[str, str]] = {
    "bert": _WORDS | _NEXT,
    "bert-classifier": {"pooler.dense": "bert.pooler.dense", "label": "classifier"},
    "bert-tagger": {"label": "classifier"},
    "bert-embedder": {},
}
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}


def public_names(config: Config, family: str = "bert") -> dict[str, tuple[str, ...]]:
    """For each of our tensors those of theirs whose concatenation it is. Their bare encoder has no `bert.` in front."""
    trunk = "" if family == "bert-embedder" else "bert."
    names: dict[str, tuple[str, ...]] = {
        f"encoder.{ours}": (f"{trunk}embeddings.{theirs}",) for ours, theirs in _EMBEDDINGS.items()
    }
    for layer in range(config.layers):
        for ours, several in _BLOCK.items():
            for end in ("weight", "bias"):
                place = f"{trunk}encoder.layer.{layer}"
                names[f"encoder.layers.{layer}.{ours}.{end}"] = tuple(f"{place}.{theirs}.{end}" for theirs in several)
    heads = _HEADS[family] if config.next_sentence or family != "bert" else _WORDS
    for ours, theirs in heads.items():
        names |= {f"{ours}.{end}": (f"{theirs}.{end}",) for end in ("weight", "bias")}
    if family == "bert":
        names["words.bias"] = ("cls.predictions.bias",)
    return names


def public_config(values: Mapping[str, Any]) -> Config:
    """From their config.json. It does not say which token [SEP] is: 102 in the released vocabularies."""
    for key, usual in (("position_embedding_type", "absolute"), ("is_decoder", False), ("tie_word_embeddings", True)):
        if values.get(key, usual) != usual:
            raise UsageError(f"a BERT with {key}={values[key]!r} is not known here; only {usual!r} is")
    activation = values.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise UsageError(f"a BERT with hidden_act={activation!r} is not known here; only {', '.join(_ACTIVATIONS)} are")
    return Config(
        vocabulary=values["vocab_size"],
        size=values["hidden_size"],
        hidden_size=values["intermediate_size"],
        heads=values["num_attention_heads"],
        layers=values["num_hidden_layers"],
        dropout=values.get("hidden_dropout_prob", 0.1),
        activation=_ACTIVATIONS[activation],
        epsilon=values.get("layer_norm_eps", 1e-12),
        max_length=values.get("max_position_embeddings", 512),
        segments=values.get("type_vocab_size", 2),
        pad=-1 if (pad := values.get("pad_token_id", 0)) is None else pad,
        separator=values.get("sep_token_id") or 102,
        labels=len(values.get("id2label") or {}) or values.get("num_labels", 2),
    )


def to_public_config(config: Config) -> dict[str, Any]:
    """Their config.json, for `transformers` to load."""
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    return {
        "model_type": "bert",
        "vocab_size": config.vocabulary,
        "hidden_size": config.size,
        "intermediate_size": config.hidden_size,
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": names[config.activation],
        "layer_norm_eps": config.epsilon,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": config.segments,
        "pad_token_id": config.pad if config.pad >= 0 else None,
        "sep_token_id": config.separator,
        "id2label": {number: f"LABEL_{number}" for number in range(config.labels)},
    }
