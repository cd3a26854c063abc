"""Linear layers in 8 bits: against a spelled-out sum of whole numbers, in any company, saved and copied."""

import copy

import pytest
import torch
from torch import Tensor, nn

from regard.layers import int8
from regard.layers.int8 import LARGEST_INPUT, LARGEST_WEIGHT, Int8Linear


def layer(inputs: int = 48, outputs: int = 40, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs, bias)


def spelled_out(linear: nn.Linear, states: Tensor) -> Tensor:
    """Row by row, output by output, in whole numbers."""
    result = torch.zeros(len(states), linear.out_features, dtype=torch.float64)
    for r, row in enumerate(states.double()):
        step = row.abs().max() / LARGEST_INPUT
        p = (row / step).round().long()
        for i, weights in enumerate(linear.weight.detach().double()):
            scale = weights.abs().max() / LARGEST_WEIGHT
            q = (weights / scale).round().long()
            result[r, i] = step * scale * int((p * q).sum())
            result[r, i] += 0 if linear.bias is None else linear.bias[i].item()
    return result


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_sum_of_whole_numbers(bias: bool) -> None:
    linear = layer(bias=bias)
    states = torch.randn(7, 48) * torch.logspace(-3, 3, 7)[:, None]
    found = Int8Linear.of(linear.weight, linear.bias)(states)
    wanted = spelled_out(linear, states)
    assert ((found - wanted).abs() / (1e-3 + wanted.abs().amax(1, keepdim=True))).max() < 1e-5


def test_the_largest_numbers_do_not_overflow() -> None:
    """All products of one sign: where neighbours are added in 16 bits, they must fit."""
    weight, states = torch.ones(8, 512), torch.ones(3, 512)
    torch.testing.assert_close(Int8Linear.of(weight)(states), torch.full((3, 8), 512.0), rtol=1e-6, atol=0)
    torch.testing.assert_close(Int8Linear.of(-weight)(states), torch.full((3, 8), -512.0), rtol=1e-6, atol=0)


def test_it_is_near_the_whole_layer() -> None:
    linear = layer(256, 256)
    states = torch.randn(64, 256)
    whole = linear(states)
    error = (Int8Linear.of(linear.weight, linear.bias)(states) - whole).pow(2).mean() / whole.pow(2).mean()
    assert error.sqrt() < 0.02


def test_a_row_is_the_same_in_any_company() -> None:
    quantised = Int8Linear.of(layer().weight)
    states = torch.randn(33, 48) * torch.logspace(-3, 3, 33)[:, None]
    together = quantised(states)
    for number in range(33):
        torch.testing.assert_close(quantised(states[number : number + 1])[0], together[number], rtol=0, atol=0)


def test_a_part_is_a_part_of_the_whole() -> None:
    linear = layer()
    quantised = Int8Linear.of(linear.weight, linear.bias)
    states = torch.randn(2, 5, 48)
    torch.testing.assert_close(quantised.rows(states, 8, 30), quantised(states)[..., 8:30], rtol=0, atol=0)


def test_zeros_and_no_rows() -> None:
    linear = layer()
    quantised = Int8Linear.of(linear.weight, linear.bias)
    torch.testing.assert_close(quantised(torch.zeros(2, 48)), linear.bias.detach().expand(2, -1))
    assert quantised(torch.zeros(0, 3, 48)).shape == (0, 3, 40)
    assert torch.isfinite(Int8Linear.of(torch.zeros(4, 48))(torch.randn(2, 48))).all()


def test_the_plain_way_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = layer()
    states = torch.randn(9, 48)
    fast = Int8Linear.of(linear.weight, linear.bias)(states)
    monkeypatch.setattr(int8, "_has_fbgemm", lambda device: False)
    plain = Int8Linear.of(linear.weight, linear.bias)(states)
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-6)


def test_saved_copied_and_filled_again() -> None:
    linear, states = layer(), torch.randn(4, 48)
    quantised = Int8Linear.of(linear.weight, linear.bias)
    before = quantised(states)
    torch.testing.assert_close(copy.deepcopy(quantised)(states), before, rtol=0, atol=0)
    other = Int8Linear.of(torch.randn(40, 48), torch.randn(40))
    other(states)  # packs what it is about to lose
    other.load_state_dict(quantised.state_dict())
    torch.testing.assert_close(other(states), before, rtol=0, atol=0)


def with_outlier() -> tuple[nn.Linear, Tensor, Int8Linear]:
    """A layer one of whose inputs is fifty times as large as the others, and the same with that input whole."""
    linear, states = layer(), torch.randn(6, 48)
    states[:, 7] *= 50
    return linear, states, Int8Linear.of(linear.weight, linear.bias, torch.tensor([7, 30]))


def test_whole_columns_do_not_spoil_the_others() -> None:
    linear, states, quantised = with_outlier()
    wanted = linear(states)
    blurred = (Int8Linear.of(linear.weight, linear.bias)(states) - wanted).abs().mean()
    assert (quantised(states) - wanted).abs().mean() < blurred / 5


def test_whole_columns_are_added_to_the_sum_of_whole_numbers() -> None:
    linear, states, quantised = with_outlier()
    rest, few = torch.arange(48)[~torch.isin(torch.arange(48), quantised.columns)], quantised.columns
    other = nn.Linear(46, 40)
    other.weight.data, other.bias.data = linear.weight.data[:, rest], linear.bias.data
    wanted = spelled_out(other, states[:, rest]) + states[:, few].double() @ linear.weight.data[:, few].double().T
    torch.testing.assert_close(quantised(states).double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(quantised.rows(states, 8, 30), quantised(states)[:, 8:30])
    for number in range(len(states)):
        torch.testing.assert_close(quantised(states[number : number + 1])[0], quantised(states)[number])


def test_whole_columns_however_large_give_no_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = layer()
    states = torch.full((2, 48), 1e-30)
    states[:, 7] = 1e30
    assert Int8Linear.of(linear.weight, linear.bias, torch.tensor([7]))(states).isfinite().all()
    monkeypatch.setattr(int8, "_has_fbgemm", lambda device: False)
    assert Int8Linear.of(linear.weight, linear.bias, torch.tensor([7]))(states).isfinite().all()
