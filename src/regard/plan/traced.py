"""What a model costs, seen in a pass over one row and over two.

Families whose costs are not written out are small: their real network, with a vocabulary cut down to a few words, reads
a row or two on this machine. What autograd keeps is counted where it is kept (saved_tensors_hooks, each storage once,
parameters aside); the products are counted by torch's counter. Both grow by the same amount with every row, and the
arithmetic by the same amount with every word of the vocabulary, so two points of each line are enough.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.families import build_model
from regard.plan.cost import Cost
from regard.plan.derived import Bill, Head, Work
from regard.plan.inputs import FEW_WORDS, inputs
from regard.plan.recurrent import RECURRENT, written_out


def traced(family: str, config: Any, work: Work) -> Bill:
    """The bill of any family; the arithmetic is the written one where there is one."""
    small = _few_words(config, FEW_WORDS)
    one, two = (kept_bytes(family, small, work, rows) for rows in (1, 2))
    kept = sum(one) + (work.rows - 1) * (sum(two) - sum(one))
    if written_out(family, config):
        products, head = RECURRENT[family](config, work)
        products = products if head is None else products + head.cost
    else:
        products, head = work.rows * _row_products(family, config, work), _head(family, config, work)
    cost = Cost(products.forward, products.backward, marks=kept)
    largest = (max(two, default=0) - max(one, default=0)) / 4  # numbers, of a row
    return Bill(cost, head, working=2 * work.rows * largest, how="traced")


def kept_bytes(family: str, config: Any, work: Work, rows: int) -> list[int]:
    """The sizes of all that autograd keeps in one call of a freshly built model, in training."""
    with torch.random.fork_rng(devices=[]):
        model = build_model(family, config).train()
        with keeping(model) as kept:
            said = model(*inputs(model, config, work, rows))  # what is kept lives as long as this does
        sizes = [storage.nbytes() for storage in kept.values()]
        del said
    return sizes


def counted(family: str, config: Any, work: Work, rows: int) -> Cost:
    """FLOPs of one call there and back, by torch's counter."""
    with torch.random.fork_rng(devices=[]):
        model = build_model(family, config).train()
        counter = FlopCounterMode(display=False)
        # Without the kernels that the counter does not know: fused attention, and the LSTM of oneDNN.
        with sdpa_kernel(SDPBackend.MATH), without_onednn(), counter:
            said = total(model(*inputs(model, config, work, rows)))
            forward = counter.get_total_flops()
            said.backward()
    return Cost(forward, counter.get_total_flops() - forward)


@contextmanager
def without_onednn() -> Iterator[None]:
    known = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(known)


@contextmanager
def keeping(model: nn.Module) -> Iterator[dict[int, torch.UntypedStorage]]:
    """The storages that autograd keeps for the way back, by address; those of parameters are not counted."""
    owned = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


def total(said: Any) -> Tensor:
    """One number to go back from."""
    parts = said if isinstance(said, tuple) else (said,)
    return torch.stack([part.float().sum() for part in parts]).sum()


def _few_words(config: Any, count: int) -> Any:
    """What is kept does not depend on the vocabulary, and a small one is quickly built."""
    if getattr(config, "vocabulary", 0) <= count:
        return config
    return dataclasses.replace(config, vocabulary=count)


def _row_products(family: str, config: Any, work: Work) -> Cost:
    """Of one row, with the whole vocabulary."""
    few = counted(family, _few_words(config, FEW_WORDS), work, 1)
    vocabulary = getattr(config, "vocabulary", 0)
    if vocabulary <= FEW_WORDS:
        return few
    more = counted(family, _few_words(config, 2 * FEW_WORDS), work, 1)
    words = (vocabulary - FEW_WORDS) / FEW_WORDS
    return few + words * (more + -1 * few)


def _head(family: str, config: Any, work: Work) -> Head | None:
    with torch.device("meta"):
        model: Any = build_model(family, config)
    if not hasattr(model, "output_weight"):
        return None
    vocabulary, size = model.output_weight.shape
    tied = any(module.weight is model.output_weight for module in model.modules() if isinstance(module, nn.Embedding))
    return Head(work.rows * work.length, size, vocabulary, tied=tied)
