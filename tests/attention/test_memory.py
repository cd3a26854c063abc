"""Memories are values that may share storage: however they grow, each stays what it was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import Memory

SIZES = (2, 3)  # batch, heads


def piece(length: int, seed: int, masked: bool = False) -> Memory:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(*SIZES, length, 4, generator=generator)
    values = torch.randn(*SIZES, length, 5, generator=generator)
    return Memory(keys, values, torch.rand(2, length, generator=generator) > 0.5 if masked else None)


def joined(pieces: list[Memory]) -> tuple[Tensor, Tensor]:
    return torch.cat([each.keys for each in pieces], -2), torch.cat([each.values for each in pieces], -2)


@given(st.data())
def test_a_tree_of_growing_memories_is_what_concatenation_gives(data: st.DataObject) -> None:
    with torch.inference_mode():
        first = piece(data.draw(st.integers(0, 3)), 0)
        known = [([first], first)]
        for seed in range(1, 12):
            pieces, memory = known[data.draw(st.integers(0, len(known) - 1))]  # any of them, not only the newest
            new = piece(data.draw(st.integers(0, 3)), seed)
            known.append(([*pieces, new], memory.grow(new)))
        for pieces, memory in known:
            keys, values = joined(pieces)
            assert torch.equal(memory.keys, keys)
            assert torch.equal(memory.values, values)


def test_steps_seldom_move_the_storage() -> None:
    with torch.inference_mode():
        memory, places = piece(4, 0), set()
        for seed in range(100):
            memory = memory.grow(piece(1, seed))
            places.add(memory.keys.data_ptr())
    assert len(memory) == 104
    assert len(places) <= 6


@pytest.mark.parametrize("inference", [True, False])
def test_masks_grow_along(inference: bool) -> None:
    with torch.inference_mode(inference):
        memory = piece(2, 0).grow(piece(3, 1, masked=True)).grow(piece(1, 2))
    assert memory.mask is not None
    assert memory.mask[:, [0, 1, 5]].all()
    assert torch.equal(memory.mask[:, 2:5], piece(3, 1, masked=True).mask)


def test_gradients_flow_through_a_grown_memory() -> None:
    first, new = piece(2, 0), piece(1, 1)
    new.keys.requires_grad_()
    first.grow(new).keys.sum().backward()
    assert torch.equal(new.keys.grad, torch.ones_like(new.keys))
