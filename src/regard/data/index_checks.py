"""Numbers from a file that are used as indices: of tokens in an embedding, of labels in an output."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError

AT_ONCE = 1 << 22  # numbers; so that a memory-mapped file of any size is read piece by piece


def check_range(values: NDArray[Any], count: int | None, path: Path) -> None:
    """Raises RegardError unless all `values` of the file at `path` are in 0 ... count - 1; None is any count."""
    if count is None:
        return
    for first in range(0, len(values), AT_ONCE):
        part = values[first : first + AT_ONCE]
        for value in (int(np.min(part)), int(np.max(part))):
            if not 0 <= value < count:
                raise RegardError(
                    f"{path}: has the value {value} but must lie in 0 ... {count - 1}; "
                    f"delete the folder {path.parent} to make it anew"
                )
