"""Looking without changing what is seen.

    with record(model, layers=[-1], heads=[0, 3], queries=-1) as tape:
        model(...)
    tape["decoder.layers.5.cross_attention"]      # [batch, 2 heads, 1 query, keys]

Every attention returns an `Attended` value that can recompute its exact weights. `record` hooks the attentions of
a model and asks for just the chosen heads and rows, after the fused kernel has done its work: outputs are bitwise
the same with and without it. Where all weights are chosen, a kernel that has them anyway keeps them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attention import Attention
from regard.attention.memory import Attended
from regard.attention.multihead import MultiHeadAttention
from regard.errors import UsageError

Weights = Float[Tensor, "batch heads queries keys"]
Choice = int | Iterable[int] | slice | None


class Tape(Mapping[str, Weights]):
    """From the name of an attention module to the weights it paid, in the order of the calls.

    A module that was called several times (a decoder that steps) has the rows of all its calls one below the
    other; keys that a row could not know yet are zero.
    """

    def __init__(self) -> None:
        self._calls: dict[str, list[Weights]] = {}

    def __getitem__(self, name: str) -> Weights:
        calls = self._calls[name]
        if len({call.shape[:2] for call in calls}) > 1:
            raise UsageError(
                f"{name} was recorded for batches of different sizes: use one record(...) per batch to keep them apart"
            )
        longest = max(call.shape[-1] for call in calls)
        return torch.cat([F.pad(call, (0, longest - call.shape[-1])) for call in calls], dim=2)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, name: str, weights: Weights) -> None:
        self._calls.setdefault(name, []).append(weights)


@contextmanager
def record_own(
    model: nn.Module,
    *,
    layers: int | str | Iterable[int | str] | None = None,
    heads: Choice = None,
    queries: Choice = None,
    tape: Tape | None = None,
) -> Iterator[Tape]:
    """Record the exact weights of every forward pass inside the `with` block, of a model made of our own parts.

    One that attends to nothing leaves the tape empty; `record` is for any model, and refuses that.

    `layers` are layer numbers (-1 is the last of its stack) or name patterns such as `"decoder.*cross_attention"`;
    `heads` and `queries` are numbers, lists or slices, negative ones counted from the end. None means all.
    The weights are added to `tape`, if one is given.
    """
    tape = Tape() if tape is None else tape
    chosen = choose_attentions(model, layers)
    heads, queries = reusable(heads), reusable(queries)
    handles = [module.register_forward_hook(_recorder(tape, name, heads, queries)) for name, module in chosen]
    try:
        with _kept_weights([module for _, module in chosen] if heads is None and queries is None else []):
            yield tape
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _kept_weights(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Tell attentions that all their weights will be asked for."""
    told = [module for module in modules if isinstance(module, MultiHeadAttention) and not module.keeps_weights]
    for module in told:
        module.keeps_weights = True
    try:
        yield
    finally:
        for module in told:
            del module.keeps_weights


def attentions(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every attention of a model with its name, in the order of the model's definition."""
    kinds = (Attention, MultiHeadAttention)
    return [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]


def choose_attentions(model: nn.Module, layers: int | str | Iterable[int | str] | None) -> list[tuple[str, nn.Module]]:
    """The attentions whose layer number or name is asked for; asking for none that exists is an error."""
    return choose_among(attentions(model), layers)


def choose_among(
    found: list[tuple[str, nn.Module]], layers: int | str | Iterable[int | str] | None
) -> list[tuple[str, nn.Module]]:
    """The same, of attentions that are already found."""
    if layers is None:
        return found
    wanted = [layers] if isinstance(layers, int | str) else list(layers)
    last: dict[str, int] = {}
    for name, _ in found:
        stack, number = _stack_and_number(name)
        last[stack] = max(last.get(stack, 0), number)

    def matches(name: str, want: int | str) -> bool:
        if isinstance(want, str):
            return fnmatchcase(name, want)
        stack, number = _stack_and_number(name)
        return number == (want if want >= 0 else last[stack] + 1 + want)

    for want in wanted:
        if not any(matches(name, want) for name, _ in found):
            names = ", ".join(name for name, _ in found) or "none"
            raise UsageError(f"no attention matches layer {want!r}; this model's attentions are: {names}")
    return [(name, module) for name, module in found if any(matches(name, want) for want in wanted)]


def _stack_and_number(name: str) -> tuple[str, int]:
    """`decoder.layers.3.cross_attention` is number 3 of the stack `decoder.layers`."""
    match = re.match(r"(.*?)\.?(\d+)(?:\.|$)", name)
    return (match[1], int(match[2])) if match else ("", 0)


def reusable(choice: Choice) -> Choice:
    """Every layer reads the choice again, so a generator becomes a list."""
    return choice if choice is None or isinstance(choice, int | slice) else list(choice)


def _recorder(tape: Tape, name: str, heads: Choice, queries: Choice) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Attended) -> None:
        chosen_heads = None if heads is None else index_of(heads, getattr(module, "heads", 1), "head", name)
        rows = None if queries is None else index_of(queries, output.context.shape[-2], "query", name)
        has_heads = isinstance(module, MultiHeadAttention)
        with torch.no_grad():
            weights = output.weights_of(chosen_heads if has_heads else None, rows).detach()
        if not has_heads:  # an attention without heads has one
            weights = weights.unsqueeze(-3)
        if weights.dim() == 3:  # and one without a batch is a batch of one
            weights = weights.unsqueeze(0)
        tape.add(name, weights)

    return hook


def index_of(choice: Choice, count: int, what: str, name: str) -> Tensor:
    """The numbers of what is chosen, all of them from 0; one that does not exist is an error."""
    if choice is None:
        return torch.arange(count)
    if isinstance(choice, slice):
        return torch.arange(count)[choice]
    numbers = [choice] if isinstance(choice, int) else list(choice)
    for number in numbers:
        if not -count <= number < count:
            raise UsageError(
                f"there is no {what} {number} in {name or 'this attention'}: it has {count}, counted from 0"
            )
    return torch.tensor([number % count for number in numbers], dtype=torch.long)
