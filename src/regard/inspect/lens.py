"""The logit lens: what a model would say if it stopped after each of its layers (nostalgebraist 2020).

    p_l(next token) = softmax(E LN(x_l)),    l = 0 (the embeddings), 1, ..., L

The states after every layer are read as if they were the last: through the last LayerNorm, if the blocks are pre-norm,
and the output matrix. For the last layer that is what the model says, number by number.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.inspect.results import Result


@dataclass(frozen=True, eq=False)
class LogitLens(Result):
    """Layer 0 is before the first layer."""

    places: NDArray[np.int64]  # of the tokens after which the next one is guessed
    tokens: NDArray[np.int64]  # [layers + 1, places, top]: the likeliest tokens, best first
    probabilities: NDArray[np.float32]  # [layers + 1, places, top]: theirs
    entropy: NDArray[np.float32]  # [layers + 1, places]: how open the choice is, in nats
    divergence: NDArray[np.float32]  # [layers + 1, places]: KL from the last layer's guess, in nats


@torch.inference_mode()
def logit_lens(
    model: nn.Module, *inputs: Tensor, top: int = 10, places: int | list[int] | None = None, row: int = 0
) -> LogitLens:
    """What each layer guesses about example `row` of the inputs, given as to the model: `logit_lens(gpt2, tokens)`,
    `logit_lens(transformer, source, target)`, `logit_lens(bert, tokens)`.

    `places` are the positions asked for (None: all; negative ones from the end).
    """
    stack, said = _stack(model), _reader(model)
    with evaluating(model), _states_of(stack.layers) as states:
        output = model(*inputs)
    if len(states) != len(stack.layers) + 1:
        raise UsageError("the text is longer than the model's window and was read in pieces: shorten it")
    chosen = _chosen(places, output.shape[1])
    logits = [said(state[row])[torch.as_tensor(chosen, device=state.device)].float() for state in states]
    last = logits[-1].log_softmax(-1)
    found: list[tuple[Tensor, ...]] = []
    for layer in logits:
        chances = layer.softmax(-1)
        best = chances.topk(min(top, chances.shape[-1]), dim=-1)
        divergence = (last.exp() * (last - layer.log_softmax(-1))).sum(-1)
        found.append((best.indices, best.values, torch.special.entr(chances).sum(-1), divergence))
    return LogitLens(chosen, *(torch.stack(part).cpu().numpy() for part in zip(*found, strict=True)))


def _chosen(places: int | list[int] | None, length: int) -> NDArray[np.int64]:
    numbers = np.arange(length) if places is None else np.atleast_1d(np.asarray(places, dtype=np.int64))
    for place in numbers:
        if not -length <= place < length:
            raise UsageError(f"there is no place {place}: the model read {length} tokens, counted from 0")
    return numbers % length


def _stack(model: Any) -> Any:
    """The layers whose last states become words: of the decoder, if there is one."""
    for holder in (getattr(model, "decoder", None), getattr(model, "encoder", None), model):
        if isinstance(getattr(holder, "layers", None), nn.ModuleList):
            return holder
    raise UsageError(f"{type(model).__name__} is no stack of layers: a logit lens is for Transformers that say words")


def _reader(model: Any) -> Callable[[Tensor], Tensor]:
    """From the states after a layer to logits."""
    if not hasattr(model, "logits"):
        raise UsageError(f"{type(model).__name__} says no words: a logit lens is for models with an output matrix")
    stack = _stack(model)
    if not stack.layers[0].around_self_attention.pre_norm:
        return model.logits
    return lambda states: model.logits(stack.norm(states))


@contextmanager
def _states_of(layers: nn.ModuleList) -> Iterator[list[Tensor]]:
    """What goes into the first layer and what comes out of each."""
    states: list[Tensor] = []

    def before(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        states.append(inputs[0])

    def after(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        states.append(output[0] if isinstance(output, tuple) else output)

    handles = [layers[0].register_forward_pre_hook(before)]
    handles += [layer.register_forward_hook(after) for layer in layers]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()
