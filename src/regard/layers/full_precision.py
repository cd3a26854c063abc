"""Functions with a gradient of their own, under mixed precision: torch does not cast for them."""

from typing import Any

import torch
from torch import Tensor


def apply_in_full(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply`, in 32 bits where `torch.autocast` would use 16: a recurrence adds its roundings up, and a loss
    needs its digits."""
    kind = next(each.device.type for each in arguments if isinstance(each, Tensor))
    if not torch.is_autocast_enabled(kind):
        return function.apply(*arguments)
    with torch.autocast(kind, enabled=False):
        return function.apply(*map(_widened, arguments))


def _widened(value: Any) -> Any:
    is_narrow = isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if is_narrow else value
