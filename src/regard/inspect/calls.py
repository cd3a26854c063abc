"""What an attention was asked and what it answered, call by call, kept as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Attended, Memory
from regard.attention.recording import choose_attentions
from regard.inspect.heads import Layers, has_heads
from regard.inspect.results import Array, array


@dataclass(frozen=True)
class Call:
    """One call of one attention."""

    module: nn.Module
    given: dict[str, Any]  # the arguments by their names
    attended: Attended
    context: Tensor  # what was read; of many heads [batch, queries, size], their contexts side by side, before W_o
    training: bool
    wishes: Tensor | None = None  # of an NTM: all that its controller asked for in this step

    @property
    def memory(self) -> Memory:
        assert self.attended.memory is not None
        return self.attended.memory

    @property
    def queries(self) -> int:
        return self.context.shape[-2]

    def own_weights(self, row: int) -> Tensor:
        """The model's own weights [queries, keys], of an attention without heads."""
        return self.of_row(self.attended.weights_of(None, None), row)

    def of_row(self, tensor: Tensor, row: int) -> Tensor:
        """One example of a batch; what has no batch is the same for all of them."""
        return tensor if tensor.dim() == 2 else tensor[row if len(tensor) > 1 else 0]

    def memory_of(self, row: int, head: int | None = None) -> "MemoryNumbers":
        """What one example (and one head of many) could look at."""
        keys, values, mask = self.memory.keys, self.memory.values, self.memory.mask
        real = torch.ones(len(self.memory), dtype=torch.bool) if mask is None else mask[row]
        if head is not None:
            keys, values = keys[:, head], values[:, head]
        return MemoryNumbers(array(self.of_row(keys, row)), array(self.of_row(values, row)), array(real))


@dataclass(frozen=True, eq=False)
class MemoryNumbers:
    """The memory of one example."""

    keys: Array  # [keys, size], as `remember` prepared them
    values: Array  # [keys, size]
    real: Array  # [keys]: what is not padding

    def __len__(self) -> int:
        return len(self.real)

    @property
    def places(self) -> Array:
        """The place of each key among the real ones (padding has the place of a neighbour)."""
        return np.maximum(self.real.cumsum() - 1, 0)


@contextmanager
def watch_calls(model: nn.Module, layers: Layers = None) -> Iterator[dict[str, list[Call]]]:
    """All calls of the chosen attentions inside the block, by the names of the attentions."""
    calls: dict[str, list[Call]] = {}
    handles = []
    modules = dict(model.named_modules())
    for name, module in choose_attentions(model, layers):
        seen: dict[str, Tensor] = {}  # what passes by the attention on the same occasion
        if has_heads(module):  # before anybody changes what the heads read
            handles.append(module.output.register_forward_pre_hook(_keep_input(seen), prepend=True))
        wishes = getattr(modules.get(name.rpartition(".")[0]), "wishes", None)  # of a Neural Turing Machine
        if isinstance(wishes, nn.Module):
            handles.append(wishes.register_forward_hook(_keep_output(seen)))
        handles.append(module.register_forward_hook(_keep_call(calls.setdefault(name, []), seen), with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _keep_input(seen: dict[str, Tensor]) -> Any:
    def hook(module: nn.Module, inputs: tuple[Tensor]) -> None:
        seen["context"] = inputs[0].detach()

    return hook


def _keep_output(seen: dict[str, Tensor]) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        seen["wishes"] = output.detach()

    return hook


def _keep_call(calls: list[Call], seen: dict[str, Tensor]) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Attended) -> None:
        bound = signature(module.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        context = seen.get("context", output.context).detach()
        calls.append(Call(module, dict(bound.arguments), output, context, module.training, seen.get("wishes")))

    return hook
