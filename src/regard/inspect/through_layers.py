"""Attention through all layers: as a flow in pipes, and weighted by what the answer hangs on.

flow        Abnar and Zuidema (2020): layers of tokens joined by pipes as wide as (I + W_l) / 2; how much can flow from
            a token of the top to a token of the input? (Rollout, their other measure, multiplies along the paths.)
gradients   dL/dW_ij = dL/dc_i · v_j, since c_i = Σ_j W_ij v_j. So the exact gradient of every weight comes from the
            gradient of the context and the values, and the fused kernel that never shows its weights stays in place.
relevance   Chefer et al. (2021): R = R + mean over heads of (dL/dW ∘ W)⁺ · R, from R = I upwards.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.recording import choose_attentions
from regard.attention.rollout import mixed
from regard.errors import RegardError, UsageError
from regard.inspect.heads import Layers, has_heads
from regard.inspect.results import Array, Result

UNIT = 1 << 30  # a pipe as wide as a whole token, for an algorithm that counts in integers


def stacked(tape: Mapping[str, Any], names: str = "*", row: int = 0) -> NDArray[np.float32]:
    """The self-attentions on a tape whose names match, one layer above the other [layers, heads, tokens, tokens]."""
    chosen = [np.asarray(weights)[row] for name, weights in tape.items() if fnmatchcase(name, names)]
    if not chosen or len({layer.shape for layer in chosen}) > 1 or chosen[0].shape[-1] != chosen[0].shape[-2]:
        shapes = ", ".join(str(layer.shape) for layer in chosen) or "nothing"
        raise UsageError(
            f"{names!r} chooses {shapes}; layers that stand upon each other have one shape, as many queries as keys: "
            "name one stack, such as 'encoder.*'"
        )
    return np.stack(chosen)


def flow(weights: Array, queries: Iterable[int] | None = None) -> NDArray[np.float64]:
    """From the weights of all layers [layers, heads, tokens, tokens]: what can flow from each chosen token of the top
    (None: all) to each token of the input [queries, tokens].

    Every pair is a maximum flow of its own, so this is for a few dozen tokens. Needs scipy.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError as error:
        raise RegardError("attention flow needs scipy: install it with pip install 'regard[inspect]'") from error
    pipes = np.round(mixed(weights) * UNIT).astype(np.int32)
    layers, tokens = len(pipes), pipes.shape[-1]
    layer, above, below = np.indices(pipes.shape).reshape(3, -1)
    ends = (layer + 1) * tokens + above, layer * tokens + below
    graph = csr_array((pipes.ravel(), ends), shape=((layers + 1) * tokens,) * 2)
    chosen = range(tokens) if queries is None else [query % tokens for query in queries]
    return np.array(
        [
            [maximum_flow(graph, layers * tokens + query, key).flow_value / UNIT for key in range(tokens)]
            for query in chosen
        ]
    )


@dataclass(frozen=True, eq=False)
class GradientWeighted(Result):
    """By the names of the attentions, each [batch, heads, queries, keys]."""

    value: float  # what was explained
    weights: dict[str, NDArray[np.float32]]
    gradients: dict[str, NDArray[np.float32]]  # of the value, with respect to each weight

    @property
    def positive(self) -> dict[str, NDArray[np.float32]]:
        """(dL/dW ∘ W)⁺: the weights that raised the value, by how much."""
        return {name: np.maximum(self.gradients[name] * paid, 0) for name, paid in self.weights.items()}


def gradient_weighted(model: nn.Module, run: Callable[[], Tensor], layers: Layers = None) -> GradientWeighted:
    """The weights of one pass and the gradient of what it came to.

    `run` makes the pass and returns one number that carries a gradient, such as the logit of a label:
    `lambda: model(tokens)[0, label]`.
    """
    seen: dict[str, list[tuple[Any, Tensor]]] = {}
    handles = []
    for name, module in choose_attentions(model, layers):
        watch = _Watch(seen.setdefault(name, []))
        if has_heads(module):
            handles.append(module.output.register_forward_pre_hook(watch.before_output, prepend=True))
        handles.append(module.register_forward_hook(watch.after))
    try:
        with torch.enable_grad():
            value = run()
    finally:
        for handle in handles:
            handle.remove()
    several = [name for name, calls in seen.items() if len(calls) > 1]
    if several:
        raise UsageError(f"{several[0]} was called more than once: explain models that read all tokens in one pass")
    called = {name: calls[0] for name, calls in seen.items() if calls}
    contexts = [context for _, context in called.values()]
    found = torch.autograd.grad(value, contexts, allow_unused=True)
    weights, gradients = {}, {}
    for (name, (attended, context)), gradient in zip(called.items(), found, strict=True):
        gradient = torch.zeros_like(context) if gradient is None else gradient
        weights[name], gradients[name] = _with_heads(attended, gradient)
    return GradientWeighted(float(value.detach()), weights, gradients)


class _Watch:
    """Keeps the context of each call of one attention: the tensor itself, which the gradient will reach."""

    def __init__(self, calls: list[tuple[Any, Tensor]]):
        self.calls = calls
        self.merged: Tensor | None = None

    def before_output(self, output: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """What all heads read; if nothing before it learns, the gradient begins here."""
        self.merged = inputs[0] if inputs[0].requires_grad else inputs[0].clone().requires_grad_()
        return (self.merged,)

    def after(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        context = output.context if self.merged is None else self.merged
        if context.requires_grad:
            self.calls.append((output, context))


@torch.no_grad()
def _with_heads(attended: Any, gradient: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The weights, and dL/dW_ij = dL/dc_i · v_j, both [batch, heads, queries, keys]."""
    weights, values = attended.weights_of(None, None), attended.memory.values
    if values.dim() == 4:
        gradient = gradient.unflatten(-1, (values.shape[1], -1)).transpose(1, 2)
    else:
        weights, values, gradient = weights.unsqueeze(-3), values.unsqueeze(-3), gradient.unsqueeze(-3)
    return weights.float().cpu().numpy(), (gradient @ values.mT).float().cpu().numpy()


def relevance(positive: Array) -> NDArray[np.float64]:
    """From gradient-weighted layers [layers, heads, tokens, tokens] to how much each token of the input counts for each
    token of the top."""
    total = np.eye(positive.shape[-1])
    for layer in positive.mean(axis=1, dtype=np.float64):
        total = total + layer @ total
    return total
