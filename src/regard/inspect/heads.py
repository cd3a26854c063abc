"""The seam between the heads of an attention and its output projection.

    y = W_o [c_1; ...; c_h]

What every head read, c_r, goes into W_o side by side with the others. Whoever stands there can see each head's context
as the fused kernel made it, switch heads off, or put a gate before each; models and kernels stay as they are.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.recording import choose_attentions
from regard.errors import UsageError

Layers = int | str | Iterable[int | str] | None
Change = Callable[[Tensor], Tensor]
"""From the contexts [batch, queries, heads, head_size] to what goes into W_o in their place."""


@contextmanager
def heads_changed(changes: Iterable[tuple[MultiHeadAttention, Change]]) -> Iterator[None]:
    """Inside the block the heads of each attention go through its change."""
    handles = [module.output.register_forward_pre_hook(_passing(module.heads, change)) for module, change in changes]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _passing(heads: int, change: Change) -> Any:
    def hook(output: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (change(inputs[0].unflatten(-1, (heads, -1))).flatten(-2),)

    return hook


def multi_heads(model: nn.Module, layers: Layers = None) -> list[tuple[str, MultiHeadAttention]]:
    """Every chosen attention that has heads, with its name; choosing none is an error."""
    found = [(name, module) for name, module in choose_attentions(model, layers) if has_heads(module)]
    if not found:
        raise UsageError(f"{type(model).__name__} has no multi-head attention there, so it has no heads to look at")
    return found


def has_heads(module: nn.Module) -> TypeGuard[MultiHeadAttention]:
    return isinstance(module, MultiHeadAttention)
