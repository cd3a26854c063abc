"""The layer against its equations, and its tapes against themselves."""

import pytest
import torch
from torch import Tensor

from regard.attention import record
from regard.errors import UsageError
from regard.layers.intra_attention import Hidden, IntraAttention, PlainLSTM, RecurrentStack

BATCH, LENGTH, INPUT, SIZE = 2, 7, 3, 4


def inputs(length: int = LENGTH, seed: int = 0) -> Tensor:
    return torch.randn(BATCH, length, INPUT, generator=torch.Generator().manual_seed(seed))


def layer(span: int, seed: int = 0) -> IntraAttention:
    torch.manual_seed(seed)
    made = IntraAttention(INPUT, SIZE, span)
    torch.nn.init.normal_(made.bias)
    return made


def spelled_out(layer: IntraAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's equations for one row [length, input]: states [length, size], weights [length, length]."""
    n = layer.size
    score = layer.attention.score
    w_h, v = score.key.weight, score.energy.weight[0]
    w_x, w_of_x = layer.input.weight[:n], layer.input.weight[n:]
    w_summary, w_of_summary = layer.summary.weight[:n], layer.summary.weight[n:]
    hidden: list[Tensor] = []
    cells: list[Tensor] = []
    summary = torch.zeros(n)
    weights = torch.zeros(len(x), len(x))
    for t in range(len(x)):
        seen = range(max(0, t - layer.span), t)
        scores = [v @ torch.tanh(w_h @ hidden[i] + w_x @ x[t] + w_summary @ summary) for i in seen]
        summary, cell_summary = torch.zeros(n), torch.zeros(n)
        if scores:
            s = torch.stack(scores).softmax(0)
            weights[t, seen.start : seen.stop] = s
            summary = sum(s[place] * hidden[i] for place, i in enumerate(seen))
            cell_summary = sum(s[place] * cells[i] for place, i in enumerate(seen))
        i, f, o, c = (w_of_summary @ summary + w_of_x @ x[t] + layer.bias).chunk(4)
        cells.append(f.sigmoid() * cell_summary + i.sigmoid() * c.tanh())
        hidden.append(o.sigmoid() * cells[-1].tanh())
    return torch.stack(hidden), weights


@pytest.mark.parametrize("span", [1, 3, 32])
def test_the_layer_computes_the_equations_of_the_paper(span: int) -> None:
    known, x = layer(span), inputs()
    with record(known) as tape:
        states, _ = known(x)
    (weights,) = tape.values()
    for row in range(BATCH):
        expected, paid = spelled_out(known, x[row])
        torch.testing.assert_close(states[row], expected)
        for t in range(LENGTH):
            first = max(0, t - span)
            torch.testing.assert_close(weights[row, 0, t, : t - first], paid[t, first:t])
            assert not weights[row, 0, t, t - first :].any()


def test_hidden_tape_and_cell_tape_are_read_under_one_attention() -> None:
    known = layer(span=32)
    with record(known) as tape:
        known(inputs())
    assert list(tape) == ["attention"]


@pytest.mark.parametrize("make", [lambda: layer(3), lambda: PlainLSTM(INPUT, SIZE)], ids=["intra", "plain"])
def test_reading_in_pieces_says_the_same_as_reading_at_once(make) -> None:
    known, x = make(), inputs(9)
    whole, end = known(x)
    pieces, past = [], None
    for piece in x.split([4, 1, 1, 3], dim=1):
        states, past = known(piece, None, past)
        pieces.append(states)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    if isinstance(end, Hidden):
        torch.testing.assert_close(past.cell, end.cell)
    else:
        torch.testing.assert_close(past.memory.values, end.memory.values)
        torch.testing.assert_close(past.summary, end.summary)


@pytest.mark.parametrize("intra", [True, False])
def test_padding_between_pieces_takes_no_place_on_the_tapes(intra: bool) -> None:
    torch.manual_seed(0)
    stack = RecurrentStack(INPUT, SIZE, 2, span=3, intra_attention=intra)
    x = inputs(8)
    whole, _ = stack(x)
    # Row 0 has holes everywhere, row 1 none of its tokens in the first piece.
    places = torch.tensor([[0, 2, 3, 5, 6, 9, 10, 11], [4, 5, 6, 7, 8, 9, 10, 11]])
    mask = torch.zeros(BATCH, 12, dtype=torch.bool).scatter(1, places, True)
    spread = torch.randn(BATCH, 12, INPUT).scatter(1, places[..., None].expand(-1, -1, INPUT), x)
    states, past = [], None
    for piece, real in zip(spread.split([4, 3, 5], 1), mask.split([4, 3, 5], 1), strict=True):
        said, past = stack(piece, real, past)
        states.append(said)
    said = torch.cat(states, 1)
    torch.testing.assert_close(said[mask].view(BATCH, 8, SIZE), whole)
    assert not said[~mask].any()


def test_a_row_with_nothing_real_has_empty_tapes_and_no_gradient_that_is_not_a_number() -> None:
    known, x = layer(3), inputs().requires_grad_()
    mask = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    mask[1] = False
    states, past = known(x, mask)
    assert not past.memory.mask[1].any()
    assert not past.summary[1].any()
    states[0].sum().backward()
    assert torch.isfinite(x.grad).all()
    assert not x.grad[1].any()


def test_the_tapes_stay_as_long_as_the_span() -> None:
    known = layer(span=3)
    _, past = known(inputs(2))
    assert len(past.memory) == 2
    _, past = known(inputs(9), None, past)
    assert len(past.memory) == 3


@pytest.mark.parametrize("wrong", [dict(span=0), dict(span=4, layers=0)])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        RecurrentStack(INPUT, SIZE, **{"layers": 1, **wrong})
