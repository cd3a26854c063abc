"""Checks of the tensors of an `Int8Linear` that come from a file.

The kernel uses `columns` as indices into memory without a check of its own, and relies on their ascending order. The
numbers of the floating-point tensors are not judged: a model that diverged loads, and outputs NaN, as everywhere.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from regard.errors import RegardError, shortened

LARGEST_WEIGHT = 64


class InvalidInt8Layer(RegardError):
    """A tensor of an int8 layer has a type, a shape or values that the layer cannot have."""


def check_columns_shape(name: str, shape: Sequence[int], inputs: int) -> None:
    """Raises InvalidInt8Layer unless `shape` can be that of the `columns` of a layer with so many inputs."""
    if len(shape) != 1 or shape[0] > inputs:
        raise InvalidInt8Layer(f"{name} has the shape {shortened(list(shape))} but must be a list of at most {inputs}")


def check_int8_layer(prefix: str, tensors: Mapping[str, Tensor], outputs: int, inputs: int) -> None:
    """Raises InvalidInt8Layer unless the tensors named `prefix` + "weight", "columns" and so on make an int8 layer.

    Tensors that are missing, or that do not fit the layer that they are copied into, are the business of the caller.
    """
    given = {part: tensors[prefix + part] for part in PARTS if prefix + part in tensors}
    for part, tensor in given.items():
        _check_type(prefix + part, tensor, PARTS[part])
    if "columns" in given:
        _check_columns(f"{prefix}columns", given["columns"], inputs)
        shape = (outputs, len(given["columns"]))
        if "whole" in given and given["whole"].shape != shape:
            found = list(given["whole"].shape)
            raise InvalidInt8Layer(f"{prefix}whole has the shape {found} but must have {list(shape)}")
    if "weight" in given and given["weight"].numel():
        smallest, largest = (int(value) for value in given["weight"].aminmax())
        if not -LARGEST_WEIGHT <= smallest <= largest <= LARGEST_WEIGHT:
            wrong = smallest if smallest < -LARGEST_WEIGHT else largest
            raise InvalidInt8Layer(
                f"{prefix}weight has the value {wrong} but must lie in -{LARGEST_WEIGHT} ... {LARGEST_WEIGHT}"
            )
    if "scale" in given and bool((given["scale"] < 0).any()):
        raise InvalidInt8Layer(f"{prefix}scale has the value {float(given['scale'].min())} but must not be negative")


PARTS: dict[str, torch.dtype | None] = {  # None is any floating-point type
    "weight": torch.int8,
    "columns": torch.int64,
    "scale": None,
    "bias": None,
    "whole": None,
}


def _check_type(name: str, tensor: Tensor, wanted: torch.dtype | None) -> None:
    if tensor.dtype != wanted and not (wanted is None and tensor.is_floating_point()):
        must = "a floating-point type" if wanted is None else wanted
        raise InvalidInt8Layer(f"{name} has the type {tensor.dtype} but must have {must}")


def _check_columns(name: str, columns: Tensor, inputs: int) -> None:
    check_columns_shape(name, columns.shape, inputs)
    outside = columns[(columns < 0) | (columns >= inputs)]
    if len(outside):
        raise InvalidInt8Layer(f"{name} has the value {int(outside[0])} but must lie in 0 ... {inputs - 1}")
    steps = columns.diff()
    if bool((steps <= 0).any()):
        first = int((steps <= 0).nonzero()[0])
        one, other = columns[first : first + 2].tolist()
        raise InvalidInt8Layer(f"{name} has the values {one}, {other} in a row but must be strictly ascending")
