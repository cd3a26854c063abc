"""How much memory an object holds on to: everything that can be reached from it, each part once."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor, nn

OPAQUE = (nn.Module, type, ModuleType, CodeType, BuiltinFunctionType)  # these belong to the program or to the model
SMALL = 56  # bytes of an object that does not know its size


def held_bytes(root: Any, shared: Iterable[Any] = ()) -> int:
    """Bytes of the tensors, arrays, images, texts and containers below `root`, but for what is below `shared` ones:
    a model's weights are the model's own, and so is its tokenizer."""
    seen = {id(each) for each in shared}
    storages = {
        tensor.untyped_storage().data_ptr()
        for model in shared
        if isinstance(model, nn.Module)
        for tensor in (*model.parameters(), *model.buffers())
    }
    total, waiting = 0, [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, OPAQUE):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each, SMALL)
        if isinstance(each, Tensor):
            storage = each.untyped_storage()
            if storage.data_ptr() not in storages:
                storages.add(storage.data_ptr())
                total += storage.nbytes()
        elif isinstance(each, Image.Image):
            total += each.width * each.height * (4 if each.mode in "IF" else len(each.getbands()))
        else:
            waiting += parts(each)
    return total


def parts(each: Any) -> Iterator[Any]:
    """What an object refers to."""
    if isinstance(each, str | bytes | bytearray | int | float | range | None):
        return
    if isinstance(each, dict):
        yield from each
        yield from each.values()
    elif isinstance(each, list | tuple | set | frozenset | deque):
        yield from each
    elif isinstance(each, np.ndarray):
        if each.base is not None:
            yield each.base
        elif each.dtype.hasobject:
            yield from each.ravel().tolist()
    elif isinstance(each, FunctionType):
        yield from (cell.cell_contents for cell in each.__closure__ or () if cell != CellType())
        yield from each.__defaults__ or ()
    elif isinstance(each, MethodType):
        yield from (each.__self__, each.__func__)
    elif isinstance(each, partial):
        yield from (each.func, each.args, each.keywords)
    else:
        yield from getattr(each, "__dict__", {}).values()
        for kind in type(each).__mro__:
            slots = getattr(kind, "__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(each, name):
                    yield getattr(each, name)
