"""Products of real tokens alone: the same results, and padding is never given to them."""

import pytest
import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.unpadded import on_real_tokens, while_reading
from regard.layers.blocks import BlockSizes, EncoderBlock


def some_padding() -> Tensor:
    """Padding on both sides, and a row of nothing else."""
    mask = torch.zeros(4, 7, dtype=torch.bool)
    mask[0, :7], mask[1, 2:5], mask[2, :4] = True, True, True
    return mask


class Watched(nn.Linear):
    """Remembers how many rows it was given."""

    rows = 0

    def forward(self, states: Tensor) -> Tensor:
        self.rows = states.numel() // states.shape[-1]
        return super().forward(states)


def test_padding_is_left_out_while_a_model_only_reads() -> None:
    layer, states, mask = Watched(5, 6), torch.randn(4, 7, 5), some_padding()
    with torch.inference_mode():
        found = on_real_tokens(layer, mask, states)
    assert layer.rows == mask.sum()
    torch.testing.assert_close(found[mask], layer(states)[mask])
    assert not found[~mask].any()


def test_with_hardly_any_padding_all_is_done_at_once() -> None:
    layer, mask = Watched(5, 6), torch.ones(4, 10, dtype=torch.bool)
    mask[3, 9] = False
    with torch.inference_mode():
        on_real_tokens(layer, mask, torch.randn(4, 10, 5))
    assert layer.rows == mask.numel()


def test_gradients_are_those_of_the_real_tokens() -> None:
    layer, mask = Watched(5, 6), some_padding()
    states = torch.randn(4, 7, 5, requires_grad=True)
    wanted = torch.autograd.grad(layer(states)[mask].square().sum(), [states, *layer.parameters()])
    found = torch.autograd.grad(on_real_tokens(layer, mask, states)[mask].square().sum(), [states, *layer.parameters()])
    assert layer.rows == mask.sum()
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_blocks_leave_padding_out_only_while_reading() -> None:
    mask = some_padding()
    assert while_reading(mask) is None
    with torch.inference_mode():
        assert while_reading(mask) is mask


def test_graphs_have_the_shapes_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, states, mask = Watched(5, 6), torch.randn(4, 7, 5), some_padding()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    on_real_tokens(layer, mask, states)
    assert layer.rows == mask.numel()


def test_a_batch_of_nothing_but_padding_gives_zeros() -> None:
    with torch.inference_mode():
        found = on_real_tokens(nn.Linear(5, 6), torch.zeros(2, 3, dtype=torch.bool), torch.randn(2, 3, 5))
    assert found.shape == (2, 3, 6)
    assert not found.any()


@pytest.mark.parametrize("pre_norm", [False, True])
def test_blocks_and_memories_are_the_same_with_and_without_padding(pre_norm: bool) -> None:
    torch.manual_seed(0)
    block = EncoderBlock(BlockSizes(8, 16, 2, 0.0, pre_norm)).eval()
    attention = MultiHeadAttention(8, 2)
    states, mask = torch.randn(4, 7, 8), some_padding()
    with torch.no_grad():
        wanted, memory = block(states, mask), attention.remember(states, mask)
    with torch.inference_mode():
        found, unpadded = block(states, mask), attention.remember(states, mask)
    torch.testing.assert_close(found[mask], wanted[mask])
    for ours, theirs in ((unpadded.keys, memory.keys), (unpadded.values, memory.values)):
        torch.testing.assert_close(ours.transpose(1, 2)[mask], theirs.transpose(1, 2)[mask])
