"""Public tensors as ours, and back, by the table that each model file ends with.

A table names, for each tensor of ours, the public tensors whose concatenation along the first dimension it is: one, as
a rule, and three where queries, keys and values share a matrix. Names in `transposed` are endings of ours whose
matrices are stored the other way round. Every tensor must have its place: what is missing, left over or of another
shape is an error that lists it.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from regard.errors import RegardError

Names = Mapping[str, tuple[str, ...]]
SHOWN = 6  # names listed before "and N more"


def to_ours(
    theirs: Mapping[str, Tensor],
    names: Names,
    shapes: Mapping[str, torch.Size],
    *,
    transposed: frozenset[str] = frozenset(),
    ignored: Iterable[str] = (),
    place: str = "the checkpoint",
) -> dict[str, Tensor]:
    """Our state dict; `ignored` are endings of public tensors that repeat others or are made anew."""
    wanted = [name for several in names.values() for name in several]
    missing = [name for name in wanted if name not in theirs]
    endings = tuple(ignored)
    extra = [name for name in theirs if name not in set(wanted) and not (endings and name.endswith(endings))]
    faults = [f"lacks {_listed(missing)}"] * bool(missing) + [f"has no place for {_listed(extra)}"] * bool(extra)
    if faults:
        raise RegardError(f"{place} does not fit this model: it {' and '.join(faults)}")
    ours = {}
    for name, several in names.items():
        turned = _is_turned(name, transposed)
        ours[name] = torch.cat([theirs[other].T if turned else theirs[other] for other in several])
    wrong = [
        f"{' + '.join(names[name])} {tuple(ours[name].shape)} instead of {tuple(shape)}"
        for name, shape in shapes.items()
        if ours[name].shape != shape
    ]
    if wrong:
        raise RegardError(f"{place} does not fit this model: {_listed(wrong)}")
    return ours


def to_theirs(
    ours: Mapping[str, Tensor], names: Names, *, transposed: frozenset[str] = frozenset()
) -> dict[str, Tensor]:
    """Public names and layouts for our state dict: the way back of `to_ours`."""
    theirs = {}
    for name, several in names.items():
        parts = ours[name].chunk(len(several))
        for other, part in zip(several, parts, strict=True):
            theirs[other] = (part.T if _is_turned(name, transposed) else part).contiguous()
    return theirs


def _is_turned(name: str, transposed: frozenset[str]) -> bool:
    return any(name.endswith(ending) for ending in transposed)


def _listed(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + more
