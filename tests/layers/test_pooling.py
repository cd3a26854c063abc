"""One vector for a row of states, wherever the padding stands."""

import pytest
import torch
from torch.nn import functional as F

from regard.layers.pooling import POOLINGS, first_state, mean_state


def test_the_mean_and_the_first_are_those_of_the_real_states() -> None:
    states = torch.arange(12.0).view(1, 4, 3)
    mask = torch.tensor([[False, True, True, False]])
    assert torch.equal(first_state(states, mask), states[:, 1])
    assert torch.equal(mean_state(states, mask), states[:, 1:3].mean(1))


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("side", [(2, 0), (0, 2)])
def test_padding_on_either_side_changes_nothing(name: str, side: tuple[int, int]) -> None:
    states = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    padded = F.pad(states, (0, 0, *side), value=9.0)
    mask = F.pad(torch.ones(3, 4, dtype=torch.bool), side, value=False)
    torch.testing.assert_close(POOLINGS[name](padded, mask), POOLINGS[name](states, None))


def test_a_row_with_nothing_real_has_a_mean_of_zeros() -> None:
    assert not mean_state(torch.ones(1, 3, 2), torch.zeros(1, 3, dtype=torch.bool)).any()
