"""A step of a GRU: as torch's cell in values and gradients, by our kernels and without them."""

import pytest
import torch
from torch import Tensor, nn

from regard.kernels import ops
from regard.layers import gru_step


@pytest.fixture(params=["ours", "torch's"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "ours":
        if not ops.is_available():
            pytest.skip("there is no C compiler here, or no GNU OpenMP")
        monkeypatch.delattr(gru_step, "reference")  # our kernels take everything that is given here
    else:
        for name in ("gru_step", "gru_step_backward"):
            monkeypatch.setattr(ops, name, lambda *tensors: False)


def by_cell(cell: nn.GRUCell, inputs: Tensor, state: Tensor) -> Tensor:
    gates = nn.functional.linear(inputs, cell.weight_ih, cell.bias_ih)
    return gru_step.step(gates, nn.functional.linear(state, cell.weight_hh, cell.bias_hh), state)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 5), (7, 16), (40, 67)])
def test_states_and_gradients_are_torchs(rows: int, size: int) -> None:
    torch.manual_seed(0)
    cell = nn.GRUCell(6, size)
    inputs, state = 3 * torch.randn(rows, 6), torch.randn(rows, size)
    given = [inputs.requires_grad_(), state.requires_grad_(), *cell.parameters()]
    expected, found = cell(inputs, state), by_cell(cell, inputs, state)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    slopes = [torch.autograd.grad(torch.sin(3 * each).sum(), given) for each in (expected, found)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(other, one, atol=3e-5, rtol=1e-5)


@pytest.mark.usefixtures("way")
def test_gates_may_be_wide_open_and_numbers_small() -> None:
    """z = 0, h' = tanh(g): over all that single precision tells from 1, and relative to itself near zero."""
    wide = torch.cat([torch.linspace(-30, 30, 3001), torch.tensor([-1e30, 1e30, 0.0]), torch.logspace(-30, 0, 61)])
    gates = torch.stack([torch.full_like(wide, 200.0), torch.full_like(wide, -200.0), wide], dim=1)
    found = gru_step.step(gates, torch.zeros_like(gates), torch.ones(len(wide), 1)).squeeze(1)
    torch.testing.assert_close(found, torch.tanh(wide), atol=1e-37, rtol=1e-6)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("place", range(3))
def test_what_is_no_number_stays_none(place: int) -> None:
    """A training that has failed must be seen to have failed."""
    gates, state = torch.zeros(2, 3 * 20), torch.zeros(2, 20)
    gates[1, 20 * place + 4] = torch.nan
    failed = gru_step.step(gates, torch.ones_like(gates), state).isnan()
    assert failed.nonzero().tolist() == [[1, 4]]
    state[0, 7] = torch.nan
    assert gru_step.step(torch.zeros_like(gates), torch.ones_like(gates), state).isnan()[0, 7]


@pytest.mark.usefixtures("way")
def test_directions_may_lie_apart() -> None:
    torch.manual_seed(0)
    gates, product, gradient = torch.randn(2, 9, 15), torch.randn(2, 9, 15), torch.randn(2, 9, 5)
    state, carried = torch.randn(2, 12, 5), torch.randn(2, 6, 5)
    part, few = slice(3, 7), slice(0, 4)
    states, kept, to_gates, to_product = (torch.zeros(2, 9, width) for width in (5, 15, 15, 15))
    gru_step.ahead(states[:, part], kept[:, part], gates[:, part], product[:, part], state[:, few])
    total, running = gradient[:, part] + carried[:, few], carried[:, few]
    known = (gradient[:, part], kept[:, part], product[:, part], state[:, few])
    gru_step.back(to_gates[:, part], to_product[:, part], running, *known)
    for direction in range(2):
        apart = [each[direction, part].clone().requires_grad_() for each in (gates, product)]
        before = state[direction, few].clone().requires_grad_()
        expected = gru_step.step(*apart, before)
        torch.testing.assert_close(states[direction, part], expected)
        slopes = torch.autograd.grad(expected, [*apart, before], total[direction])
        for one, other in zip(slopes, (to_gates[:, part], to_product[:, part], running), strict=True):
            torch.testing.assert_close(other[direction], one)
    outside = torch.ones(9, dtype=torch.bool).index_fill(0, torch.arange(3, 7), False)
    assert not any(each[:, outside].any() for each in (states, kept, to_gates, to_product))
