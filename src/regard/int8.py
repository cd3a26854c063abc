"""`load(RUN, int8=True)`: the matrices of attention and of feed-forward nets in 8 bits, and that of the output.

Embeddings, norms, heads and everything recurrent stay whole. What `save_pretrained` then writes is in 8 bits too, and
`load` opens it as it is.
"""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from regard.attention import MultiHeadAttention
from regard.errors import UsageError
from regard.layers.blocks import FeedForward
from regard.layers.int8 import Int8Linear
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer
from regard.training import checkpoints


def to_int8(model: nn.Module) -> None:
    """Change a trained model in place."""
    owners = [module for module in model.modules() if isinstance(module, MultiHeadAttention | FeedForward)]
    if not owners:
        raise UsageError(
            f"int8 is for models of attention blocks (transformer, bert, gpt2, vit), not for a {type(model).__name__}"
        )
    for owner in owners:
        for name, layer in list(owner.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(owner, name, Int8Linear.of(layer.weight, layer.bias))
    if isinstance(model, GPT2 | Transformer):
        # In the instance, where it is found before the method, but no module: the embedding it is made of is saved.
        object.__setattr__(model, "logits", output_layer(model))
    model.requires_grad_(False)


def is_int8(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


def stored_in_8_bits(folder: Path) -> bool:
    """Whether the weights of a checkpoint are; of a file that cannot be read, whoever loads it will say so."""
    try:
        with safe_open(folder / checkpoints.WEIGHTS, "pt") as file:
            return any(file.get_slice(name).get_dtype() == "I8" for name in file.keys())  # noqa: SIM118
    except (SafetensorError, OSError):
        return False


def load_int8_weights(model: nn.Module, folder: Path) -> None:
    """Fill a model that has not been trained from a checkpoint in 8 bits."""
    to_int8(model)
    checkpoints.load_weights(model, folder)
    to_int8(model)  # the output is made of the embedding, which has come only now


def output_layer(model: GPT2 | Transformer) -> Int8Linear:
    """The product of states and all words, most of the work of saying a token in a small model."""
    bias: Any = getattr(model, "output_bias", None)
    return Int8Linear.of(model.output_weight, None if bias is None else bias.squeeze(1))
