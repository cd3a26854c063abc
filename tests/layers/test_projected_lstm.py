"""The projected LSTM against its equations spelt out, word by word and direction by direction."""

import torch
from torch import Tensor

from regard.layers.projected_lstm import Carried, ProjectedLSTM, Rows

MASK = torch.tensor(
    [
        [True, True, True, True, True],
        [False, False, True, True, False],
        [False, False, False, False, False],
        [True, False, True, False, True],
    ]
)
CLIPS = (0.25, 0.1)  # tight enough to be felt


def lstm(cell_clip: float | None = None, projection_clip: float | None = None) -> ProjectedLSTM:
    torch.manual_seed(1)
    layer = ProjectedLSTM(3, 4, 6, cell_clip, projection_clip).double()
    torch.nn.init.normal_(layer.bias, std=0.5)
    return layer


def inputs(seed: int = 0) -> Tensor:
    return torch.randn(*MASK.shape, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def spelt_out(
    layer: ProjectedLSTM, way: int, words: Tensor, state: Tensor, cell: Tensor
) -> tuple[list[Tensor], Tensor]:
    """States of one row in one direction, in the order of reading, and the last cell."""
    states = []
    for word in words:
        gates = layer.input_weight[way] @ word + layer.weight[way] @ state + layer.bias[way]
        i, g, f, o = gates.chunk(4)
        cell = (f.sigmoid() * cell + i.sigmoid() * g.tanh()).clamp(-layer.clips[0], layer.clips[0])
        state = (layer.projection[way] @ (o.sigmoid() * cell.tanh())).clamp(-layer.clips[1], layer.clips[1])
        states.append(state)
    return states, cell


def expected(layer: ProjectedLSTM, batch: Tensor, mask: Tensor) -> Tensor:
    """[batch, length, 8], zero at padding."""
    rows = []
    for words, real in zip(batch, mask, strict=True):
        places = real.nonzero()[:, 0].tolist()
        row = [torch.zeros(8, dtype=torch.float64) for _ in real]
        nothing = torch.zeros(4, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
        forward, _ = spelt_out(layer, 0, words[places], *nothing)
        backward, _ = spelt_out(layer, 1, words[places[::-1]], *nothing)
        for place, ahead, back in zip(places, forward, backward[::-1], strict=True):
            row[place] = torch.cat([ahead, back])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def read(layer: ProjectedLSTM, batch: Tensor, mask: Tensor, first: Carried | None = None) -> tuple[Tensor, Carried]:
    rows = Rows(mask)
    states, carried = layer(rows.by_direction(rows.real_ones(batch)), rows, first)
    return rows.in_place(rows.together(states)), carried


def test_both_directions_follow_the_equations() -> None:
    layer = lstm()
    torch.testing.assert_close(read(layer, inputs(), MASK)[0], expected(layer, inputs(), MASK))


def test_cells_and_projections_are_clipped() -> None:
    layer = lstm(*CLIPS)
    states, carried = read(layer, inputs(), MASK)
    torch.testing.assert_close(states, expected(layer, inputs(), MASK))
    assert states.abs().max().item() == CLIPS[1]
    assert carried.cells.abs().max().item() == CLIPS[0]


def test_the_gradient_written_out_is_the_gradient() -> None:
    for clips in ((None, None), CLIPS):
        layer, batch = lstm(*clips), inputs().requires_grad_()
        wanted_of = [batch, *layer.parameters()]
        weigh = torch.linspace(-1, 1, MASK.numel() * 8, dtype=torch.float64).view(*MASK.shape, 8)
        wanted = torch.autograd.grad((expected(layer, batch, MASK) * weigh).sum(), wanted_of)
        found = torch.autograd.grad((read(layer, batch, MASK)[0] * weigh).sum(), wanted_of)
        for gradient, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(gradient, right)


def test_a_clipped_value_passes_no_gradient_on() -> None:
    layer = lstm(projection_clip=1e-6)
    read(layer, inputs(), MASK)[0].sum().backward()
    assert layer.projection.grad is not None
    assert not layer.projection.grad.any()


def test_each_direction_goes_on_where_it_stopped() -> None:
    layer, first, second = lstm(*CLIPS), inputs(0), inputs(1)
    everything = torch.ones_like(MASK)
    _, carried = read(layer, first, everything)
    states, after = read(layer, second, everything, carried)
    nothing = torch.zeros(4, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    for row in range(len(MASK)):
        ahead, cell = spelt_out(layer, 0, torch.cat([first[row], second[row]]), *nothing)
        back, back_cell = spelt_out(layer, 1, torch.cat([first[row].flip(0), second[row].flip(0)]), *nothing)
        torch.testing.assert_close(states[row, :, :4], torch.stack(ahead[5:]))
        torch.testing.assert_close(states[row, :, 4:], torch.stack(back[5:]).flip(0))
        torch.testing.assert_close(after.cells[row], torch.stack([cell, back_cell]))
        torch.testing.assert_close(after.states[row], torch.stack([ahead[-1], back[-1]]))


def test_a_row_without_words_carries_what_it_had() -> None:
    layer = lstm()
    _, carried = read(layer, inputs(0), torch.ones_like(MASK))
    _, after = read(layer, inputs(1), MASK, carried)
    assert torch.equal(after.states[2], carried.states[2])
    assert torch.equal(after.cells[2], carried.cells[2])
    assert not torch.equal(after.states[1], carried.states[1])


def test_what_is_carried_has_no_gradient() -> None:
    _, carried = read(lstm(), inputs(), MASK)
    assert not carried.states.requires_grad
    assert not carried.cells.requires_grad


def test_a_batch_without_any_word_is_read_as_zeros() -> None:
    states, carried = read(lstm(), inputs(), torch.zeros_like(MASK))
    assert not states.any()
    assert not carried.cells.any()


def test_a_new_layer_remembers() -> None:
    forget = ProjectedLSTM(3, 4, 6).bias[:, 12:18]
    assert torch.equal(forget, torch.ones_like(forget))
