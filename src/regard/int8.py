"""`load(RUN, int8=True)`: the matrices of attention and of feed-forward nets in 8 bits, and that of the output.

Embeddings, norms, heads and everything recurrent stay whole, and of every matrix the few inputs that are by far the
largest: they are found by letting the model read at random. What `save_pretrained` then writes is in 8 bits too, and
`load` opens it as it is.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.attention import MultiHeadAttention
from regard.decoding.generate import evaluating
from regard.errors import RegardError, UsageError
from regard.layers.blocks import FeedForward
from regard.layers.int8 import Int8Linear
from regard.layers.int8_checks import InvalidInt8Layer, check_columns_shape
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer
from regard.training import checkpoints

MOST_WHOLE = 4  # inputs of a matrix that are not quantised; more change little
FAR = 4.0  # times as large as the middle one


def to_int8(model: nn.Module) -> None:
    """Change a trained model in place."""
    owners = [module for module in model.modules() if isinstance(module, MultiHeadAttention | FeedForward)]
    if not owners:
        raise UsageError(
            f"int8 is for models of attention blocks (transformer, bert, gpt2, vit), not for a {type(model).__name__}"
        )
    chosen = [(owner, name) for owner in owners for name, part in owner.named_children() if isinstance(part, nn.Linear)]
    seen = inputs_of(model) if chosen else Inputs()
    for owner, name in chosen:
        layer = getattr(owner, name)
        small = Int8Linear.of(layer.weight, layer.bias, outliers(seen.largest(layer.weight)))
        if isinstance(owner, FeedForward) and name == "expand":
            small.activation, owner.activation = owner.kind, as_it_is
        setattr(owner, name, small)
    if isinstance(model, GPT2 | Transformer):
        # In the instance, where it is found before the method, but no module: the embedding it is made of is saved.
        object.__setattr__(model, "logits", output_layer(model))
    model.requires_grad_(False)


def as_it_is(states: Tensor) -> Tensor:
    """In place of an activation that the product before it has done."""
    return states


def outliers(sizes: Tensor) -> Tensor:
    """The few inputs that are far larger than most."""
    best = sizes.topk(min(MOST_WHOLE, len(sizes)))
    return best.indices[best.values > FAR * sizes.median()].sort().values


class Inputs(TorchFunctionMode):
    """Sees every product with a matrix, and keeps how large each of its inputs ever was."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, Tensor] = {}  # by the place in memory where the matrix, or the part of one, begins

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            place, found = args[1].data_ptr(), args[0].detach().abs().flatten(0, -2).amax(0)
            self.seen[place] = torch.maximum(found, self.seen.get(place, found))
        return func(*args, **(kwargs or {}))

    def largest(self, weight: Tensor) -> Tensor:
        """How large the inputs of a matrix, and of its parts, were."""
        start = weight.data_ptr()
        found = [known for place, known in self.seen.items() if start <= place < start + weight.nbytes]
        return torch.stack(found).amax(0)


def inputs_of(model: nn.Module) -> Inputs:
    """What the matrices of a model are multiplied with when it reads at random."""
    random = torch.Generator().manual_seed(0)
    config: Any = model.config
    device = next(model.parameters()).device
    given = []
    if hasattr(config, "image_size"):
        channels = getattr(config, "channels", 3)
        given.append(torch.randn(2, channels, config.image_size, config.image_size, generator=random))
    if hasattr(config, "vocabulary"):
        length = min(32, getattr(config, "context", 32), getattr(config, "max_length", 32))
        given.append(torch.randint(0, config.vocabulary, (2 if given else 16, length), generator=random))
    if isinstance(model, Transformer):
        given *= 2  # a source, and a target
    with evaluating(model), torch.no_grad(), Inputs() as seen:
        model(*(tensor.to(device) for tensor in given))
    return seen


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
    path = folder / checkpoints.WEIGHTS
    try:
        with safe_open(path, "pt") as file:
            stored = set(file.keys())
            for name, module in model.named_modules():
                columns = f"{name}.columns"
                if isinstance(module, Int8Linear) and columns in stored:
                    shape = file.get_slice(columns).get_shape()
                    check_columns_shape(columns, shape, module.weight.shape[1])
                    module.reserve(*shape)
        checkpoints.load_weights(model, folder)
    except InvalidInt8Layer as error:
        raise RegardError(f"{path}: {error}; it is not a checkpoint of this model") from error
    to_int8(model)  # the output is made of the embedding, which has come only now


def output_layer(model: GPT2 | Transformer) -> Int8Linear:
    """The product of states and all words, most of the work of saying a token in a small model."""
    bias: Any = getattr(model, "output_bias", None)
    return Int8Linear.of(model.output_weight, None if bias is None else bias.squeeze(1))
