"""SNAIL's blocks against the equations spelt out, element by element."""

import math

import pytest
import torch
from torch import Tensor

from regard.attention import record
from regard.errors import UsageError
from regard.layers.temporal import AttentionBlock, DenseBlock, Temporal, dense_blocks, padding_first

BLOCKS = ("att 4 3", "tc 3", "att 5 2")


def states(steps: int, size: int = 4, rows: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(rows, steps, size, generator=torch.Generator().manual_seed(seed))


def temporal(length: int = 7, blocks: tuple[str, ...] = BLOCKS) -> Temporal:
    torch.manual_seed(1)
    return Temporal(4, length, blocks)


@pytest.mark.parametrize("dilation", [1, 2, 8])
def test_a_dense_block_is_two_gated_convolutions_of_width_two(dilation: int) -> None:
    torch.manual_seed(0)
    block, inputs = DenseBlock(4, 3, dilation), states(5)
    said = block(inputs, torch.arange(5))
    for row in range(2):
        for t in range(5):
            both = block.now.weight @ inputs[row, t] + block.now.bias
            if t >= dilation:
                both = both + block.before.weight @ inputs[row, t - dilation]
            gated = torch.tanh(both[:3]) * torch.sigmoid(both[3:])
            torch.testing.assert_close(said[row, t], torch.cat([inputs[row, t], gated]))


def test_an_attention_block_is_a_softmax_over_the_past_and_itself() -> None:
    torch.manual_seed(0)
    block, inputs = AttentionBlock(4, 5, 3), states(4)
    said = block(inputs, torch.arange(4))
    for row in range(2):
        for t in range(4):
            query = block.query(inputs[row, t])
            scores = [(query @ block.key(inputs[row, s])).item() / math.sqrt(5) for s in range(t + 1)]
            total = sum(map(math.exp, scores))
            read = sum(math.exp(score) / total * block.value(inputs[row, s]) for s, score in enumerate(scores))
            torch.testing.assert_close(said[row, t], torch.cat([inputs[row, t], read]))


def test_the_weights_of_every_row_sum_to_one_over_the_keys_and_the_future_gets_nothing() -> None:
    model = temporal()
    with record(model) as tape:
        model(states(6))
    assert len(tape) == 2
    for weights in tape.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 6))
        assert (weights.triu(1) == 0).all()
        assert (weights.tril() > 0).sum() == 2 * 21


@pytest.mark.parametrize("place", range(6))
def test_a_later_element_never_changes_an_earlier_output(place: int) -> None:
    model, inputs = temporal(), states(6)
    changed = inputs.clone()
    changed[:, place] += 1
    before, after = model(inputs), model(changed)
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place:], after[:, place:])


@pytest.mark.parametrize("length", [2, 5, 6, 16, 26])
def test_the_last_output_of_one_tc_block_sees_the_whole_sequence(length: int) -> None:
    model = temporal(length, ("tc 4",))
    assert [block.dilation for block in model.blocks] == [2**level for level in range(dense_blocks(length))]
    inputs = states(length).requires_grad_()
    model(inputs)[:, -1].sum().backward()
    assert inputs.grad is not None
    assert (inputs.grad.abs().sum(-1) > 0).all()


def test_one_dilation_less_would_not_cover_it() -> None:
    model = temporal(6, ("tc 4",))
    del model.blocks[-1]
    inputs = states(6).requires_grad_()
    model(inputs)[:, -1].sum().backward()
    assert inputs.grad is not None
    assert (inputs.grad[:, 0] == 0).all()


def test_step_by_step_says_the_same_as_all_at_once() -> None:
    model, inputs = temporal(), states(7)
    experience = model.start(2, inputs)
    for t in range(7):
        experience = model.step(inputs[:, t : t + 1], experience)
    torch.testing.assert_close(experience.states, model(inputs))


def test_elements_side_by_side_each_say_what_they_would_say_alone() -> None:
    model, past, last = temporal(), states(5), states(3, seed=9)
    together = model(torch.cat([past, last], 1), side_by_side=3)
    for number in range(3):
        alone = model(torch.cat([past, last[:, number : number + 1]], 1))
        torch.testing.assert_close(together[:, :5], alone[:, :5])
        torch.testing.assert_close(together[:, 5 + number], alone[:, 5])


def test_padding_in_front_changes_nothing_and_says_nothing() -> None:
    model, inputs = temporal(), states(4)
    mask = torch.tensor([[False, False, True, True, True, True]]).expand(2, -1)
    said = model(torch.cat([torch.zeros(2, 2, 4), inputs], 1), mask)
    torch.testing.assert_close(said[:, 2:], model(inputs))
    assert (said[:, :2] == 0).all()


def test_padding_comes_first_and_the_rest_keeps_its_order() -> None:
    mask = torch.tensor([[True, False, True, False], [False, True, True, True]])
    assert padding_first(mask).tolist() == [[1, 3, 0, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize("name", ["att 64", "tc", "tc 0", "tc -3", "gru 8", "tc 1 2", "att a b"])
def test_a_block_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"write att KEYS VALUES or tc FILTERS"):
        temporal(blocks=(name,))
