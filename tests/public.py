"""Weights of a public checkpoint into one of our models, by the table the model's file gives."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def take_public(
    model: nn.Module,
    theirs: Mapping[str, Tensor],
    names: Mapping[str, tuple[str, ...]],
    *,
    transposed: frozenset[str] = frozenset(),
    repeated: frozenset[str] = frozenset(),
) -> None:
    """Every tensor of ours must be named, every tensor of theirs used (or `repeated`), and every shape must fit."""
    expected = model.state_dict()
    assert names.keys() == expected.keys(), names.keys() ^ expected.keys()
    used = {name for several in names.values() for name in several}
    assert used == theirs.keys() - repeated, used ^ (theirs.keys() - repeated)
    taken = {}
    for name, several in names.items():
        turned = any(name.endswith(end) for end in transposed)
        taken[name] = torch.cat([theirs[other].T if turned else theirs[other] for other in several])
        assert taken[name].shape == expected[name].shape, name
    model.load_state_dict(taken)
