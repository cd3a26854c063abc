"""Looking into models that were built elsewhere: those of transformers and timm, or anyone's own.

    with regard.record(bert, layers=[-1], heads=[0], queries=0) as tape:
        bert(**inputs)
    tape["encoder.layer.11.attention.self"]      # [batch, 1 head, 1 query, keys]

They all end in one call of torch's fused kernel. A module that makes it is known by its `forward`, whose code names the
kernel, or the table of kernels that transformers chooses from. While such a module runs, a torch function mode sees
what the kernel is called with. Positions, grouped heads, relative biases, windows and caches are all in there, so the
weights need nothing but the kernel's own equation:

    weights = softmax(q k^T scale + bias)

The call itself goes on as it is: outputs are bitwise the same. A module that runs without the kernel and returns its
weights (transformers' `eager`) is read from what it returns.
"""

import inspect
import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.attention import recording
from regard.attention.alignments import masked_softmax
from regard.attention.dot_product import CHUNK_ELEMENTS
from regard.attention.recording import Choice, Tape, Weights
from regard.errors import UsageError

KERNEL = F.scaled_dot_product_attention
NAMES = {"scaled_dot_product_attention", "ALL_ATTENTION_FUNCTIONS"}  # how a `forward` says that it attends


def record(
    model: nn.Module,
    *,
    layers: int | str | Iterable[int | str] | None = None,
    heads: Choice = None,
    queries: Choice = None,
) -> AbstractContextManager[Tape]:
    """Record the exact attention weights of every forward pass inside the `with` block, of any model.

    `layers` are layer numbers (-1 is the last of its stack) or name patterns such as `"decoder.*cross_attention"`;
    `heads` and `queries` are numbers, lists or slices, negative ones counted from the end. None means all.
    The model may be one of regard's, one of transformers', or any whose attention calls torch's
    `scaled_dot_product_attention`. A model of both kinds, such as a captioner with a backbone of timm, is recorded
    with both kinds of attention on one tape.

    Records of one model may be nested, and each has its own tape. A tape hears every pass of the model while it is
    open, from whichever thread: threads that share a model should not record it at the same time.
    """
    if any("_orig_mod" in part._modules or part._compiled_call_impl is not None for part in model.modules()):
        raise UsageError(
            f"{type(model).__name__} is compiled and does not say what it attends to: "
            "record the model as it was before torch.compile"
        )
    looking = _record_both if recording.attentions(model) else watch
    return looking(model, layers=layers, heads=heads, queries=queries)


@contextmanager
def _record_both(
    model: nn.Module,
    *,
    layers: int | str | Iterable[int | str] | None = None,
    heads: Choice = None,
    queries: Choice = None,
) -> Iterator[Tape]:
    """What `record` does with a model of our own attentions, and perhaps of others."""
    others = dict(kernel_attentions(model))
    kinds = {**dict(recording.attentions(model)), **others}
    found = [(name, module) for name, module in model.named_modules() if name in kinds]
    chosen = [name for name, _ in recording.choose_among(found, layers)]
    heads, queries = recording.reusable(heads), recording.reusable(queries)
    own, built_elsewhere = ([name for name in chosen if (name in others) == there] for there in (False, True))
    with ExitStack() as stack:
        tape = stack.enter_context(recording.record_own(model, layers=own, heads=heads, queries=queries))
        if built_elsewhere:
            stack.enter_context(watch(model, layers=built_elsewhere, heads=heads, queries=queries, tape=tape))
        yield tape


@contextmanager
def watch(
    model: nn.Module,
    *,
    layers: int | str | Iterable[int | str] | None = None,
    heads: Choice = None,
    queries: Choice = None,
    tape: Tape | None = None,
) -> Iterator[Tape]:
    """What `record` does with a model that was built elsewhere; the weights are added to `tape`, if one is given."""
    found = kernel_attentions(model)
    if not found:
        raise UsageError(
            f"{type(model).__name__} has no attention that can be recorded: none of its modules calls torch's "
            "scaled_dot_product_attention, or asks transformers for its attention function"
        )
    tape = Tape() if tape is None else tape
    heads, queries = recording.reusable(heads), recording.reusable(queries)
    watchers = [_Watcher(module, tape, name, heads, queries) for name, module in recording.choose_among(found, layers)]
    try:
        yield tape
    finally:
        for watcher in watchers:
            watcher.remove()


def kernel_attentions(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every module that calls the fused kernel, with its name, in the order of the model's definition."""
    return [(name, module) for name, module in model.named_modules() if _calls_kernel(module)]


def _calls_kernel(module: nn.Module) -> bool:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and not NAMES.isdisjoint(code.co_names)


@dataclass(frozen=True, eq=False)
class KernelCall:
    """What the fused kernel was called with, by the kernel's own names."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def weights(self, heads: Choice, queries: Choice, name: str) -> Weights:
        """softmax(q k^T scale + bias) for the chosen heads and rows, chunk by chunk, in fp32 at least.

        Weights are those before dropout. A query that may attend to nothing pays zeros.
        """
        query, key = _four_axes(self.query), _four_axes(self.key)
        mask = None
        if self.attn_mask is not None:
            mask = _four_axes(self.attn_mask.expand(*self.query.shape[:-1], self.key.shape[-2]))
        device, exact = query.device, torch.promote_types(query.dtype, torch.float32)
        chosen = recording.index_of(heads, query.shape[1], "head", name).to(device)
        rows = recording.index_of(queries, query.shape[2], "query", name).to(device)
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        keys = key[:, chosen // (query.shape[1] // key.shape[1])].to(exact).mT  # grouped heads share their keys
        weights = torch.empty(
            max(len(query), len(key)), len(chosen), len(rows), key.shape[2], dtype=exact, device=device
        )
        at_once = max(1, CHUNK_ELEMENTS // max(1, weights[:, :, :1].numel()))
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            scores = query[:, chosen[:, None], part].to(exact) * scale @ keys
            allowed = None
            if mask is not None:
                allowed = mask[:, chosen[:, None], part]
                if allowed.dtype != torch.bool:
                    scores, allowed = scores + allowed, allowed > -torch.inf
            elif self.is_causal:  # the kernel counts both sides from the first
                allowed = torch.arange(key.shape[2], device=device) <= part[:, None]
            weights[:, :, start : start + at_once] = masked_softmax(scores, allowed)
        return weights


def _four_axes(tensor: Tensor) -> Shaped[Tensor, "batch heads queries last"]:
    """Without heads there is one, without a batch it is a batch of one, and axes before the heads are all batch."""
    if tensor.dim() < 4:
        tensor = tensor.unsqueeze(-3)
    return tensor[None] if tensor.dim() == 3 else tensor.flatten(0, -4)


class _Calls(TorchFunctionMode):
    """Notes the calls of the kernel and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[KernelCall] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is KERNEL:
            self.seen.append(KernelCall(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


class _Watcher:
    """Hooks around one module: what it calls the kernel with, from its first line to its last."""

    def __init__(self, module: nn.Module, tape: Tape, name: str, heads: Choice, queries: Choice):
        self.tape, self.name, self.heads, self.queries = tape, name, heads, queries
        self.running = local()  # modes are a thread's own, and so is the list of those that are open
        self.handles = [
            module.register_forward_pre_hook(self._begin, prepend=True),
            module.register_forward_hook(self._end, always_call=True),  # even after an exception the mode is left
        ]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        for calls in vars(self.running).pop("calls", []):  # what an interrupt from the keyboard left open
            calls.__exit__(None, None, None)

    def _begin(self, module: nn.Module, inputs: Any) -> None:
        calls = _Calls()
        vars(self.running).setdefault("calls", []).append(calls)
        calls.__enter__()

    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        calls = self.running.calls.pop()
        calls.__exit__(None, None, None)
        if output is None:  # the module raised; what it did not say is not on the tape
            return
        with torch.no_grad():
            for call in calls.seen:
                self.tape.add(self.name, call.weights(self.heads, self.queries, self.name).detach())
            if not calls.seen:
                self.tape.add(self.name, self._returned(output))

    def _returned(self, output: Any) -> Weights:
        """The weights at the end of what the module returns, as transformers' `eager` has them."""
        weights = output[-1] if isinstance(output, tuple) else None
        if not isinstance(weights, Tensor) or weights.dim() != 4:
            raise UsageError(
                f"{self.name} attended without torch's fused kernel and returned no weights; "
                'load the model with attn_implementation="sdpa", or choose other layers to record'
            )
        heads = recording.index_of(self.heads, weights.shape[1], "head", self.name)
        rows = recording.index_of(self.queries, weights.shape[2], "query", self.name)
        return weights.detach()[:, heads.to(weights.device)][:, :, rows.to(weights.device)]
