"""What is a head worth? Two answers for a data set, per token (or label) and in nats.

change      the rise of the loss when this head alone is off: exact, one pass over the data for every head
estimate    mean over the examples of |dL/dξ|, ξ a gate before the head that stands at one (Michel et al. 2019): all
            heads from one pass and its gradient

A head can be worth little because another does its work: switch both off to know.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.inspect.heads import Change, Layers, heads_changed, multi_heads
from regard.inspect.judging import Judged, judged
from regard.inspect.results import Result
from regard.inspect.switching import Means, head_means, heads_off


@dataclass(frozen=True, eq=False)
class HeadImportance(Result):
    """By the names of the attentions, one number per head."""

    nll: float  # per token, with all heads on
    count: int  # of tokens, or labels
    estimates: dict[str, NDArray[np.float64]]
    changes: dict[str, NDArray[np.float64]]  # empty if only the estimates were asked for

    def ranked(self) -> list[tuple[str, int, float]]:
        """Attention, head and worth, the most valuable first: by the changes, or else by the estimates."""
        known = self.changes or self.estimates
        pairs = [(name, head, float(worth)) for name, row in known.items() for head, worth in enumerate(row)]
        return sorted(pairs, key=lambda pair: -pair[2])


def head_importance(
    loaded: Any,
    examples: Iterable[Any],
    *,
    layers: Layers = None,
    exact: bool = True,
    instead: str = "zero",
    finished: Callable[[int], None] | None = None,
) -> HeadImportance:
    """What every head of `layers` (as for `record`; None: all) is worth to these examples: see regard.inspect.judging
    for what an example is.

    A head that is off reads zeros, or, with instead="mean", the mean of what it reads in these examples. `exact=False`
    leaves the passes without each head out. `finished` is told 1 whenever a head is done.
    """
    if instead not in ("zero", "mean"):
        raise UsageError(f"a head that is off reads 'zero' or 'mean', not {instead!r}")
    known = list(examples)
    batches, means = judged(loaded, known), None
    if instead == "mean" and exact:
        one_by_one = (batch.nll for example in known for batch in judged(loaded, [example]))
        with evaluating(loaded.model):
            means = head_means(loaded.model, one_by_one, layers)
    return importance(loaded.model, batches, layers=layers, exact=exact, means=means, finished=finished)


def importance(
    model: nn.Module,
    batches: Sequence[Judged],
    *,
    layers: Layers = None,
    exact: bool = True,
    means: Means | None = None,
    finished: Callable[[int], None] | None = None,
) -> HeadImportance:
    """The same for any model and any loss."""
    attentions = multi_heads(model, layers)
    count = sum(batch.count for batch in batches)
    with evaluating(model):
        nll = _total(batches) / count
        estimates = {name: worth / count for name, worth in _estimates(attentions, batches).items()}
        changes: dict[str, NDArray[np.float64]] = {}
        for name, module in attentions if exact else ():
            changes[name] = np.zeros(module.heads)
            for head in range(module.heads):
                with heads_off(model, {name: head}, means):
                    changes[name][head] = _total(batches) / count - nll
                if finished is not None:
                    finished(1)
    return HeadImportance(nll, count, estimates, changes)


@torch.inference_mode()
def _total(batches: Sequence[Judged]) -> float:
    return sum(float(batch.nll()) for batch in batches)


def _estimates(
    attentions: Sequence[tuple[str, MultiHeadAttention]], batches: Sequence[Judged]
) -> dict[str, NDArray[np.float64]]:
    """Σ over the examples of |dL/dξ|. Every row of a batch has gates of its own: one gradient serves all examples."""
    examples = 1 + max(max(batch.examples, default=0) for batch in batches)
    slopes = {name: np.zeros((examples, module.heads)) for name, module in attentions}
    for batch in batches:
        gates: list[tuple[str, Tensor]] = []
        with heads_changed([(module, _gated(name, gates)) for name, module in attentions]), torch.enable_grad():
            loss = batch.nll()
        found = torch.autograd.grad(loss, [gate for _, gate in gates], allow_unused=True)
        for (name, _), slope in zip(gates, found, strict=True):
            if slope is not None:
                np.add.at(slopes[name], np.asarray(batch.examples), slope.flatten(1).cpu().double().numpy())
    return {name: np.abs(table).sum(0) for name, table in slopes.items()}


def _gated(name: str, gates: list[tuple[str, Tensor]]) -> Change:
    def change(contexts: Tensor) -> Tensor:
        gate = contexts.new_ones(len(contexts), 1, contexts.shape[-2], 1, requires_grad=True)
        gates.append((name, gate))
        return gate * contexts

    return change
