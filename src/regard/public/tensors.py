"""Public tensors as ours, and back, by the table that each model file ends with.

A table names, for each tensor of ours, the public tensors whose concatenation along the first dimension it is: one, as
a rule, and three where queries, keys and values share a matrix. Names in `transposed` are endings of ours whose
matrices are stored the other way round. Every tensor must have its place: what is missing, left over or of another
shape is an error that lists it.
"""

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from regard.errors import RegardError

Names = Mapping[str, tuple[str, ...]]
SHOWN = 6  # names listed before "and N more"
_OLD_NORM = re.compile(r"(?<=LayerNorm\.)(gamma|beta)$")  # as TensorFlow called them


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
    check_names(theirs, names, ignored, place)
    ours, wrong = {}, []
    for name, several in names.items():
        shape = _public_shape(shapes[name], len(several), turned := _is_turned(name, transposed))
        unfit = [other for other in several if tuple(theirs[other].shape) != shape]
        wrong += [f"{other} {tuple(theirs[other].shape)} instead of {shape}" for other in unfit]
        if not unfit:
            ours[name] = torch.cat([theirs[other].T if turned else theirs[other] for other in several])
    if wrong:
        raise RegardError(f"{place} does not fit this model: {_listed(wrong)}")
    return ours


def check_names(theirs: Iterable[str], names: Names, ignored: Iterable[str], place: str) -> None:
    """Every tensor must be there, and have its place."""
    found, endings = set(theirs), tuple(ignored)
    wanted = dict.fromkeys(name for several in names.values() for name in several)
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted and not (endings and name.endswith(endings))]
    faults = [f"lacks {_listed(missing)}"] * bool(missing) + [f"has no place for {_listed(extra)}"] * bool(extra)
    if faults:
        raise RegardError(f"{place} does not fit this model: it {' and '.join(faults)}")


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


def as_in_table(
    theirs: Mapping[str, Tensor], names: Names, prefix: str, tied: Mapping[str, str], place: str = "the checkpoint"
) -> dict[str, Tensor]:
    """The tensors under the table's names, whichever habit their writer had.

    A bare encoder is saved without the `prefix`, LayerNorms once had a gamma and a beta, and of two `tied` tensors,
    which must be equal unless the table has a place for each, either or both may be there.
    """
    wanted = {name for several in names.values() for name in several}
    twins = {copy: original for copy, original in tied.items() if original in wanted and copy not in wanted}
    found: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        known = _known_name(name, prefix, wanted | twins.keys())
        if known in found:
            raise RegardError(f"{place} has {known} twice, under two names")
        found[known] = tensor
    for copy, original in twins.items():
        if copy in found:
            twin = found.pop(copy)
            if not torch.equal(found.setdefault(original, twin), twin):
                raise RegardError(
                    f"{place}: {copy} is not the same as {original}; a model in which they differ is not here"
                )
    return found


def _known_name(name: str, prefix: str, wanted: set[str]) -> str:
    name = _OLD_NORM.sub(lambda found: {"gamma": "weight", "beta": "bias"}[found[0]], name)
    spellings = (name, prefix + name, name.removeprefix(prefix))
    return next((known for known in spellings if known in wanted), name)


def _public_shape(ours: torch.Size, parts: int, turned: bool) -> tuple[int, ...]:
    shape = (ours[0] // parts, *ours[1:]) if parts > 1 else tuple(ours)
    return shape[::-1] if turned else shape


def _is_turned(name: str, transposed: frozenset[str]) -> bool:
    return any(name.endswith(ending) for ending in transposed)


def _listed(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + more
