"""The Vision Transformer of "An Image Is Worth 16x16 Words" (Dosovitskiy et al. 2021).

    z_0   = [x_class; x_1 E; x_2 E; ...; x_N E] + E_pos        (1)  x_i is a patch of P x P pixels, flattened
    z'_l  = MSA(LN(z_{l-1})) + z_{l-1}                         (2)
    z_l   = MLP(LN(z'_l)) + z'_l                               (3)  MLP(x) = W_2 GELU(W_1 x)
    y     = LN(z_L^0)                                          (4)  logits = W y + b

Cutting an image into patches and multiplying each with E is one convolution whose stride is its size. Images of
another size than the model was built for are read with E_pos interpolated as the picture it is, all but the row of
x_class; pixels beyond the last whole patch are not read. W begins at zero, as the paper does to fine-tune: the first
step moves the head alone. Distillation and hybrid models, whose patches come from a ResNet, are not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError, UsageError
from regard.layers.blocks import BlockSizes, EncoderBlock
from regard.layers.dropout import Dropout

Images = Float[Tensor, "batch channels height width"]
States = Float[Tensor, "batch tokens size"]


@dataclass(frozen=True)
class Config:
    """The sizes of a Vision Transformer."""

    labels: int  # how many kinds of images are told apart; 0: none, what comes out is y
    image_size: int = 224  # pixels of each side of the images it learns from
    patch_size: int = 16  # P
    channels: int = 3  # 1 for grey images
    size: int = 768  # D
    hidden_size: int = 3072
    heads: int = 12
    layers: int = 12
    dropout: float = 0.0
    activation: str = "gelu"
    epsilon: float = 1e-6  # of the LayerNorms

    def __post_init__(self) -> None:
        if not 1 <= self.patch_size <= self.image_size:
            raise UsageError(f"patches of {self.patch_size} pixels do not fit into images of {self.image_size}")


def _sizes(size: int, layers: int, heads: int, patch_size: int) -> dict[str, object]:
    return dict(size=size, hidden_size=4 * size, layers=layers, heads=heads, patch_size=patch_size)


PRESETS: dict[str, dict[str, object]] = {
    "grey28": dict(image_size=28, patch_size=4, channels=1, size=64, hidden_size=128, heads=4, layers=6),
    "ti16": _sizes(192, 12, 3, 16),  # Ti and S: Touvron et al. 2021 and Steiner et al. 2022
    "s16": _sizes(384, 12, 6, 16),
    "s32": _sizes(384, 12, 6, 32),
    "b16": _sizes(768, 12, 12, 16),  # B, L and H: the paper's table 1
    "b32": _sizes(768, 12, 12, 32),
    "l16": _sizes(1024, 24, 16, 16),
    "l32": _sizes(1024, 24, 16, 32),
    "h14": _sizes(1280, 32, 16, 14),
}


class VisionTransformer(nn.Module):
    """Reads an image as a sequence of patches; what it says is read off the class token."""

    reads = "images"

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        side = config.image_size // config.patch_size
        sizes = BlockSizes.of(config, pre_norm=True)
        self.patches = nn.Conv2d(config.channels, config.size, config.patch_size, stride=config.patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.size))
        self.positions = nn.Parameter(torch.empty(1, 1 + side * side, config.size))
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderBlock(sizes) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.size, eps=config.epsilon)
        self.head = nn.Linear(config.size, config.labels) if config.labels else nn.Identity()
        nn.init.normal_(self.patches.weight, std=(config.channels * config.patch_size**2) ** -0.5)
        nn.init.normal_(self.positions, std=0.02)
        for parameter in (self.patches.bias, *self.head.parameters()):
            if parameter is not None:
                nn.init.zeros_(parameter)

    def forward(self, images: Images) -> Float[Tensor, "batch labels"]:
        return self.head(self.states(images)[:, 0])

    def states(self, images: Images) -> States:
        """LN(z_L): the class token first, then the patches row by row."""
        states = self.embed(images)
        for layer in self.layers:
            states = layer(states, None)
        return self.norm(states)

    def embed(self, images: Images) -> States:
        """z_0, equation 1."""
        rows, columns = self.grid(*images.shape[-2:])
        patches = self.patches(images).flatten(2).transpose(1, 2)
        states = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1)
        return self.dropout(states + self._positions(rows, columns))

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """How many rows and columns of patches an image has."""
        patch = self.config.patch_size
        if min(height, width) < patch:
            raise RegardError(f"an image of {height} x {width} pixels holds no patch of {patch} x {patch}: enlarge it")
        return height // patch, width // patch

    def _positions(self, rows: int, columns: int) -> Float[Tensor, "1 tokens size"]:
        """E_pos; for another grid than the one learnt, interpolated in both directions."""
        side = self.config.image_size // self.config.patch_size
        if (rows, columns) == (side, side):
            return self.positions
        first, rest = self.positions.split([1, side * side], dim=1)
        table = rest.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        table = F.interpolate(table, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([first, table.flatten(2).transpose(1, 2)], dim=1)

    @staticmethod
    def attention_kind(name: str) -> str:
        """Every attention is among the patches themselves."""
        return "encoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1: `layers.0.self_attention` is in layer 1."""
        return int(name.split(".")[1]) + 1


FAMILIES = {"vit": VisionTransformer}


# Public checkpoints: Hugging Face's ViTForImageClassification, and ViTModel, which has no labels.
PUBLIC_PREFIX = "vit."  # which ViTModel is saved without
PUBLIC_TIED: dict[str, str] = {}
PUBLIC_UNREAD = ("pooler.dense.weight", "pooler.dense.bias")  # a head of ViTModel's own
PUBLIC_TRANSPOSED: frozenset[str] = frozenset()
PUBLIC_ACTIVATIONS = dict(
    gelu="gelu", gelu_new="gelu_tanh", gelu_pytorch_tanh="gelu_tanh", relu="relu", silu="silu", swish="silu"
)
PUBLIC_MODULES = {
    "self_attention.output": "attention.output.dense",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "around_self_attention.norm": "layernorm_before",
    "around_feed_forward.norm": "layernorm_after",
}


def public_names(config: Config) -> dict[str, tuple[str, ...]]:
    """For each of our tensors theirs, which are joined along the first dimension."""
    table: dict[str, tuple[str, ...]] = {
        "class_token": ("vit.embeddings.cls_token",),
        "positions": ("vit.embeddings.position_embeddings",),
    }
    for kind in ("weight", "bias"):
        table[f"patches.{kind}"] = (f"vit.embeddings.patch_embeddings.projection.{kind}",)
        table[f"norm.{kind}"] = (f"vit.layernorm.{kind}",)
        if config.labels:
            table[f"head.{kind}"] = (f"classifier.{kind}",)
        for number in range(config.layers):
            ours, theirs = f"layers.{number}", f"vit.encoder.layer.{number}"
            table[f"{ours}.self_attention.query_key_value.{kind}"] = tuple(
                f"{theirs}.attention.attention.{part}.{kind}" for part in ("query", "key", "value")
            )
            for module, public in PUBLIC_MODULES.items():
                table[f"{ours}.{module}.{kind}"] = (f"{theirs}.{public}.{kind}",)
    return table


def public_config(values: Mapping[str, Any]) -> Config:
    """The Config of their config.json, whose defaults are those of `transformers`.

    Their dropout of attention weights is for training alone; ours, on the outputs of sub-layers, takes its place.
    """
    activation, problem = values.get("hidden_act", "gelu"), values.get("problem_type")
    if values.get("model_type", "vit") != "vit":
        raise UsageError(f"config.json: model_type is {values['model_type']!r}; only 'vit' can be read as a ViT")
    if activation not in PUBLIC_ACTIVATIONS:
        raise UsageError(f"config.json: hidden_act {activation!r} is none of {', '.join(PUBLIC_ACTIVATIONS)}")
    if not values.get("qkv_bias", True):
        raise UsageError("config.json: qkv_bias is false; a ViT without biases of queries, keys and values is not here")
    if problem not in (None, "single_label_classification"):
        raise UsageError(f"config.json: problem_type {problem!r} is not here; an image has one label of several")
    return Config(
        labels=len(values["id2label"]) if "id2label" in values else values.get("num_labels", 2),
        image_size=_side(values, "image_size", 224),
        patch_size=_side(values, "patch_size", 16),
        channels=values.get("num_channels", 3),
        size=values.get("hidden_size", 768),
        hidden_size=values.get("intermediate_size", 3072),
        heads=values.get("num_attention_heads", 12),
        layers=values.get("num_hidden_layers", 12),
        dropout=values.get("hidden_dropout_prob", 0.0),
        activation=PUBLIC_ACTIVATIONS[activation],
        epsilon=values.get("layer_norm_eps", 1e-12),
    )


def _side(values: Mapping[str, Any], key: str, default: int) -> int:
    value = values.get(key, default)
    sides = {value} if isinstance(value, int) else set(value)
    if len(sides) != 1:
        raise UsageError(f"config.json: {key} is {list(value)}; only squares can be read")
    return int(sides.pop())


def to_public_config(config: Config) -> dict[str, Any]:
    """A config.json that `transformers` reads; labels get the names it would give them itself."""
    activation = {ours: theirs for theirs, ours in reversed(PUBLIC_ACTIVATIONS.items())}[config.activation]
    labels = [f"LABEL_{number}" for number in range(config.labels)]
    return {
        "architectures": ["ViTForImageClassification" if config.labels else "ViTModel"],
        "model_type": "vit",
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "num_channels": config.channels,
        "hidden_size": config.size,
        "intermediate_size": config.hidden_size,
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": activation,
        "layer_norm_eps": config.epsilon,
        "qkv_bias": True,
    }
