"""The hand-written GRU against torch's, in values and in gradients."""

import pytest
import torch
from torch import Tensor, nn

from regard.layers.packed_gru import read_rows, serves
from regard.layers.recurrent import RecurrentEncoder

MASK = torch.tensor(
    [
        [1, 1, 0, 0, 0],
        [0, 1, 1, 1, 1],
        [0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1],
        [0, 1, 0, 0, 1],
    ],
    dtype=torch.bool,
)
KINDS = {
    "both ways": dict(bidirectional=True),
    "one way": dict(),
    "two layers": dict(num_layers=2, bidirectional=True),
}


def row_by_row(rnn: nn.GRU, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """torch's GRU on the real tokens of each row alone."""
    directions = 2 if rnn.bidirectional else 1
    states = torch.zeros(*MASK.shape, directions * rnn.hidden_size)
    last = torch.zeros(directions * rnn.num_layers, len(MASK), rnn.hidden_size)
    for row, real in enumerate(MASK):
        if real.any():
            found, ends = rnn(inputs[row, real][None])
            states[row, real], last[:, row] = found[0], ends[:, 0]
    return states, last


@pytest.mark.parametrize("kind", KINDS)
def test_states_ends_and_gradients_are_torchs(kind: str) -> None:
    torch.manual_seed(0)
    rnn = nn.GRU(3, 4, batch_first=True, **KINDS[kind])
    inputs = torch.randn(5, 5, 3, requires_grad=True)
    expected, found = row_by_row(rnn, inputs), read_rows(rnn, inputs, MASK)
    wanted, given = ([torch.sin(part * 3).sum() for part in parts] for parts in (expected, found))
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)
    known = [inputs, *rnn.parameters()]
    for one, other in zip(torch.autograd.grad(sum(wanted), known), torch.autograd.grad(sum(given), known), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_the_slopes_of_the_values() -> None:
    torch.manual_seed(0)
    rnn = nn.GRU(2, 2, batch_first=True, bidirectional=True).double()
    inputs = torch.randn(5, 5, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: read_rows(rnn, given, MASK), (inputs,))


def test_a_batch_without_a_token_gives_zeros() -> None:
    rnn = nn.GRU(2, 3, batch_first=True, bidirectional=True)
    inputs = torch.randn(2, 4, 2, requires_grad=True)
    states, last = read_rows(rnn, inputs, torch.zeros(2, 4, dtype=torch.bool))
    (states.sum() + last.sum()).backward()
    assert not states.any()
    assert not last.any()
    assert all(torch.equal(known.grad, torch.zeros_like(known)) for known in [inputs, *rnn.parameters()])


def test_the_encoder_uses_it_where_it_may() -> None:
    inputs = torch.randn(5, 5, 3)
    assert serves(nn.GRU(3, 4), inputs)
    assert not serves(nn.LSTM(3, 4), inputs)
    assert not serves(nn.GRU(3, 4), inputs.to("meta"))
    torch.manual_seed(0)
    encoder = RecurrentEncoder("gru", 3, 4, 1, bidirectional=True)
    states, _ = encoder(inputs, MASK)
    torch.testing.assert_close(states, row_by_row(encoder.rnn, inputs)[0])
