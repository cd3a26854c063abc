"""What if a head were not there?

    with heads_off(model, {"decoder.*.cross_attention": [0, 3], -1: 2}):
        translator.translate(...)

A head that is off reads zeros, or, given what `head_means` found, always the mean of what it reads: then the model
misses what the head knows, but is not surprised by its silence. Inside the block everything works as ever: training,
cached decoding, `record`. Where nothing is off nothing is touched, and outputs are bitwise the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.recording import Choice, index_of, reusable
from regard.errors import UsageError
from regard.inspect.heads import Change, Layers, heads_changed, multi_heads

Means = Mapping[str, NDArray[np.floating]]
"""For each attention the mean of what every head reads [heads, head_size]."""


@contextmanager
def heads_off(model: nn.Module, off: Mapping[Any, Choice], means: Means | None = None) -> Iterator[None]:
    """Switch heads off: for attentions, named as `record` names layers, the numbers of their heads (None: all)."""
    modules: dict[str, MultiHeadAttention] = {}
    silent: dict[str, set[int]] = {}
    for layer, choice in off.items():
        heads = reusable(choice)
        for name, module in multi_heads(model, layer):
            modules[name] = module
            silent.setdefault(name, set()).update(index_of(heads, module.heads, "head", name).tolist())
    changes = [
        (modules[name], _without(numbers, modules[name].heads, _mean_of(name, means)))
        for name, numbers in silent.items()
        if numbers
    ]
    with heads_changed(changes):
        yield


def _mean_of(name: str, means: Means | None) -> NDArray[np.floating] | None:
    if means is None:
        return None
    if name not in means:
        raise UsageError(f"there is no mean of what the heads of {name} read: let head_means see this attention too")
    return means[name]


def _without(heads: set[int], count: int, mean: NDArray[np.floating] | None) -> Change:
    on = torch.tensor([[head not in heads] for head in range(count)])
    instead = torch.zeros(()) if mean is None else torch.as_tensor(mean)

    def change(contexts: Tensor) -> Tensor:
        return torch.where(on.to(contexts.device), contexts, instead.to(contexts))

    return change


def head_means(
    model: nn.Module, runs: Iterable[Callable[[], object]], layers: Layers = None
) -> dict[str, NDArray[np.float64]]:
    """What every head reads on average, over all queries of all passes.

    Each run is one pass of the model, such as `lambda: model(tokens)`. Padding would count as queries like any others:
    let each pass read a single example, or examples of one length.
    """
    attentions = multi_heads(model, layers)
    sums = {name: torch.zeros(module.heads, module.size // module.heads).double() for name, module in attentions}
    counts = dict.fromkeys(sums, 0)

    def adding(name: str) -> Change:
        def change(contexts: Tensor) -> Tensor:
            rows = contexts.detach().flatten(0, -3)
            sums[name] += rows.cpu().double().sum(0)
            counts[name] += len(rows)
            return contexts

        return change

    with heads_changed([(module, adding(name)) for name, module in attentions]), torch.inference_mode():
        for run in runs:
            run()
    return {name: (total / max(1, counts[name])).numpy() for name, total in sums.items()}
