"""What the functions of this package return: frozen values of numpy arrays, ready to be written as JSON."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]


class Result:
    """The base of the dataclasses here."""

    def as_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; what is not a finite number is None, for JSON knows no other."""
        return {name: jsonable(value) for name, value in _parts(self).items()}


def jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): jsonable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable(_parts(value))
    return value


def _parts(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def array(tensor: torch.Tensor) -> Array:
    """The numbers of a tensor, in double precision where they are floating."""
    tensor = tensor.detach().cpu()
    return tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
