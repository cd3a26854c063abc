"""Recurrent readers and writers against their equations, token by token."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from equations import read, shaken, stack_step
from regard.errors import UsageError
from regard.layers import packed_gru
from regard.layers.recurrent import (
    CELLS,
    Bridge,
    Hidden,
    RecurrentDecoder,
    RecurrentEncoder,
    arrange,
    read_rows,
    reading_order,
    recurrent_layers,
    to_front,
)

SIZE, INPUT, FED = 3, 2, 4
every_cell = pytest.mark.parametrize("cell", CELLS)
one_to_three_layers = pytest.mark.parametrize("layers", [1, 2, 3])
# Padding nowhere, right, left, on both sides, in the middle, and but for one token everywhere.
MASK = torch.tensor(
    [
        [True, True, True, True, True],
        [True, True, True, False, False],
        [False, False, True, True, True],
        [False, True, True, True, False],
        [True, False, True, False, True],
        [False, False, False, True, False],
    ]
)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def encoder(cell: str, layers: int = 1, bidirectional: bool = False, reverse: bool = False) -> RecurrentEncoder:
    made = RecurrentEncoder(cell, INPUT, SIZE, layers, bidirectional=bidirectional, reverse=reverse)
    shaken(made)
    return made


def layer_states(hidden: Hidden) -> list[tuple[Tensor, ...]]:
    """Layer by layer (h,) of a GRU or (h, c) of an LSTM."""
    return list(zip(hidden.states, hidden.cells, strict=True)) if hidden.cells else [(h,) for h in hidden.states]


# Reading


@every_cell
@one_to_three_layers
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_encoder_reads_each_row_as_the_equations_do(
    cell: str, layers: int, bidirectional: bool, reverse: bool
) -> None:
    made, inputs = encoder(cell, layers, bidirectional, reverse), torch.randn(*MASK.shape, INPUT)
    states, last = made(inputs, MASK)
    assert states.shape == (*MASK.shape, made.output_size)
    for row, mask in enumerate(MASK):
        expected, ends = read(made.rnn, inputs[row, mask], reverse)
        torch.testing.assert_close(states[row, mask], expected)
        for found, end in zip(layer_states(last), ends, strict=True):
            for part, wanted in zip(found, end, strict=False):  # a GRU has no cell
                torch.testing.assert_close(part[row], wanted)
    assert not states[~MASK].any()


@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_without_a_mask_every_token_is_read(cell: str, reverse: bool) -> None:
    made, inputs = encoder(cell, 2, True, reverse), torch.randn(3, 4, INPUT)
    states, last = made(inputs)
    masked_states, masked_last = made(inputs, torch.ones(3, 4, dtype=torch.bool))
    torch.testing.assert_close(states, masked_states)
    torch.testing.assert_close(last.top, masked_last.top)
    torch.testing.assert_close(states[1], read(made.rnn, inputs[1], reverse)[0])


@every_cell
def test_both_kernels_of_the_encoder_read_the_same(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on a CPU is not what runs elsewhere; the states must not tell."""
    made, inputs = encoder(cell, 2, True), torch.randn(*MASK.shape, INPUT)
    states, last = made(inputs, MASK)
    monkeypatch.setattr(packed_gru, "serves", lambda rnn, inputs: False)
    other_states, other_last = made(inputs, MASK)
    torch.testing.assert_close(states, other_states)
    for found, other in zip(layer_states(last), layer_states(other_last), strict=True):
        torch.testing.assert_close(found, other)


@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_what_stands_in_the_padding_is_never_read(cell: str, reverse: bool) -> None:
    made, inputs = encoder(cell, 2, True, reverse), torch.randn(*MASK.shape, INPUT)
    other = inputs.masked_fill(~MASK.unsqueeze(-1), 1e3)
    for found, expected in zip(made(inputs, MASK), made(other, MASK), strict=True):
        found, expected = (given.top if isinstance(given, Hidden) else given for given in (found, expected))
        assert torch.equal(found, expected)


@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_a_row_without_any_token_has_states_of_zero_and_leaves_the_others_alone(cell: str, reverse: bool) -> None:
    made, inputs = encoder(cell, 2, True, reverse), torch.randn(3, 4, INPUT, requires_grad=True)
    mask = torch.tensor([[False] * 4, [False, True, True, False], [False] * 4])
    states, last = made(inputs, mask)
    assert not states[[0, 2]].any()
    assert all(torch.isfinite(part).all() for layer in layer_states(last) for part in layer)
    expected, ends = read(made.rnn, inputs[1, 1:3], reverse)
    torch.testing.assert_close(states[1, 1:3], expected)
    torch.testing.assert_close(last.top[1], ends[-1][0])
    (gradient,) = torch.autograd.grad(states.square().sum(), inputs)
    assert gradient[1, 1:3].all()
    assert not gradient[~mask].any()


@pytest.mark.parametrize("kernel", ["CPU's", "torch's"])
@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_a_row_without_any_token_ends_where_it_began(
    cell: str, reverse: bool, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "torch's":
        monkeypatch.setattr(packed_gru, "serves", lambda rnn, inputs: False)
    made, inputs = encoder(cell, 1, True, reverse), torch.randn(2, 3, INPUT)
    _, last = made(inputs, torch.tensor([[False] * 3, [True, True, False]]))
    for part in layer_states(last)[0]:
        assert part[1].any()
        assert not part[0].any()


# The order of reading

masks = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=4)
)
many_masks = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@many_masks
@given(pattern=masks, reverse=st.booleans())
def test_real_tokens_come_first_in_the_order_of_reading(pattern: list[list[bool]], reverse: bool) -> None:
    order = reading_order(torch.tensor(pattern), reverse)
    for row, mask in enumerate(pattern):
        real = [place for place, is_real in enumerate(mask) if is_real]
        found = list(range(len(mask))) if order is None else order[row].tolist()
        assert found[: len(real)] == (real[::-1] if reverse else real)
        assert sorted(found) == list(range(len(mask)))


@many_masks
@given(pattern=masks)
def test_nothing_is_moved_when_all_padding_stands_on_the_right(pattern: list[list[bool]]) -> None:
    in_order = all(mask == sorted(mask, reverse=True) for mask in pattern)
    assert (reading_order(torch.tensor(pattern)) is None) == in_order


@many_masks
@given(pattern=masks, reverse=st.booleans())
def test_what_was_brought_to_the_front_goes_back_to_where_it_was(pattern: list[list[bool]], reverse: bool) -> None:
    mask = torch.tensor(pattern)
    states = torch.arange(mask.numel() * 2.0).view(*mask.shape, 2)
    front, front_mask, back = to_front(states, mask, reverse)
    assert torch.equal(arrange(front, back), states)
    for row in range(len(mask)):
        count = int(mask[row].sum())
        assert front_mask[row].tolist() == [True] * count + [False] * (mask.shape[1] - count)
        real = states[row, mask[row]]
        assert torch.equal(front[row, :count], real.flip(0) if reverse else real)


def test_no_order_leaves_everything_in_its_place() -> None:
    states = torch.randn(2, 3, 4)
    assert arrange(states, None) is states
    front, _, back = to_front(states, torch.tensor([[True, True, False], [False] * 3]))
    assert front is states
    assert back is None


def test_fewer_states_may_be_taken_than_there_are() -> None:
    states = torch.randn(2, 3, 4)
    taken = arrange(states, torch.tensor([[2], [0]]))
    assert torch.equal(taken, torch.stack([states[0, 2:], states[1, :1]]))


# Writing


def some_hidden(cell: str, layers: int, rows: int = 2) -> Hidden:
    def draw() -> tuple[Tensor, ...]:
        return tuple(torch.randn(rows, SIZE) for _ in range(layers))

    return Hidden(draw(), draw() if cell == "lstm" else ())


def decoder(cell: str, layers: int, fed_size: int = 0, dropout: float = 0.0) -> RecurrentDecoder:
    made = RecurrentDecoder(cell, INPUT, SIZE, layers, fed_size=fed_size, dropout=dropout)
    shaken(made)
    return made


@every_cell
@one_to_three_layers
@pytest.mark.parametrize("fed_size", [0, FED])
def test_steps_are_torchs_layers_over_the_inputs_side_by_side(cell: str, layers: int, fed_size: int) -> None:
    made, hidden = decoder(cell, layers, fed_size), some_hidden(cell, layers)
    inputs, fed = torch.randn(2, 5, INPUT), torch.randn(2, 5, fed_size)
    states, last = made.rnn(torch.cat([inputs, fed], dim=-1), hidden.for_torch())
    step = made.stepper()
    for place, projected in enumerate(made.project(inputs).unbind(1)):
        hidden = step(projected, hidden, fed[:, place] if fed_size else None)
        torch.testing.assert_close(hidden.top, states[:, place])
    for found, expected in zip(layer_states(hidden), layer_states(Hidden.from_torch(last)), strict=True):
        torch.testing.assert_close(found, expected)


@every_cell
@one_to_three_layers
def test_a_step_is_the_equations(cell: str, layers: int) -> None:
    made, hidden = decoder(cell, layers, FED), some_hidden(cell, layers)
    inputs, fed = torch.randn(2, INPUT), torch.randn(2, FED)
    after = layer_states(made.stepper()(made.project(inputs), hidden, fed))
    for row in range(2):
        before = [(*(part[row] for part in layer), torch.zeros(SIZE))[:2] for layer in layer_states(hidden)]
        expected = stack_step(made.rnn, torch.cat([inputs[row], fed[row]]), before)
        for found, wanted in zip(after, expected, strict=True):
            for part, value in zip(found, wanted, strict=False):
                torch.testing.assert_close(part[row], value)


@pytest.mark.parametrize("kernel", ["CPU's", "torch's"])
@every_cell
@one_to_three_layers
def test_rows_are_read_on_from_where_a_state_left_off(
    cell: str, layers: int, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "torch's":
        monkeypatch.setattr(packed_gru, "serves", lambda rnn, inputs: False)
    made, hidden, inputs = decoder(cell, layers), some_hidden(cell, layers), torch.randn(2, 4, INPUT)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    states, last = read_rows(made.rnn, inputs, mask, hidden)
    for row, length in enumerate([4, 2]):
        walked = [(*(part[row] for part in layer), torch.zeros(SIZE))[:2] for layer in layer_states(hidden)]
        for place in range(length):
            walked = stack_step(made.rnn, inputs[row, place], walked)
            torch.testing.assert_close(states[row, place], walked[-1][0])
        for found, wanted in zip(layer_states(last), walked, strict=True):
            for part, value in zip(found, wanted, strict=False):
                torch.testing.assert_close(part[row], value)
    assert not states[~mask].any()


@every_cell
def test_a_whole_target_is_its_steps(cell: str) -> None:
    made, hidden, inputs = decoder(cell, 2), some_hidden(cell, 2), torch.randn(2, 4, INPUT)
    states, last = made(inputs, hidden)
    step = made.stepper()
    for place in range(4):
        hidden = step(made.project(inputs[:, place]), hidden)
        torch.testing.assert_close(hidden.top, states[:, place])
    torch.testing.assert_close(hidden.for_torch(), last.for_torch())


@every_cell
def test_steps_drop_between_layers_only_and_only_while_training(cell: str) -> None:
    made, hidden = decoder(cell, 2, FED, dropout=0.9), some_hidden(cell, 2, rows=8)
    projected, fed = made.project(torch.randn(8, INPUT)), torch.randn(8, FED)
    calm, again = (made.eval().stepper()(projected, hidden, fed) for _ in range(2))
    shaky = made.train().stepper()(projected, hidden, fed)
    assert torch.equal(calm.top, again.top)
    assert torch.equal(shaky.states[0], calm.states[0])
    assert not torch.allclose(shaky.states[1], calm.states[1])


@every_cell
def test_a_hidden_state_goes_to_torch_and_comes_back(cell: str) -> None:
    hidden = some_hidden(cell, 3)
    back = Hidden.from_torch(hidden.for_torch())
    assert len(back.states) == 3
    assert len(back.cells) == (3 if cell == "lstm" else 0)
    for found, expected in zip(layer_states(back), layer_states(hidden), strict=True):
        assert all(map(torch.equal, found, expected))
    assert back.top is back.states[-1]


# The bridge


@every_cell
def test_the_bridge_squashes_each_layer_by_a_matrix_of_its_own(cell: str) -> None:
    bridge = Bridge(SIZE, 5, 2, cell)
    shaken(bridge)
    last = some_hidden(cell, 2)
    first = bridge(last)
    assert len(bridge.cells) == len(first.cells) == (2 if cell == "lstm" else 0)
    for matrices, before, after in (
        (bridge.states, last.states, first.states),
        (bridge.cells, last.cells, first.cells),
    ):
        for layer, (given_state, found) in enumerate(zip(before, after, strict=True)):
            for row in range(2):
                expected = torch.tanh(matrices[layer].weight @ given_state[row] + matrices[layer].bias)
                torch.testing.assert_close(found[row], expected)


# How it starts


@every_cell
def test_each_recurrent_matrix_starts_orthogonal_and_each_input_matrix_small(cell: str) -> None:
    size, inputs = 6, 4
    rnn = recurrent_layers(cell, inputs, size, 2, bidirectional=True)
    gates = {"gru": 3, "lstm": 4}[cell]
    recurrent = [parameter for name, parameter in rnn.named_parameters() if name.startswith("weight_hh")]
    assert len(recurrent) == 4
    for parameter in recurrent:
        for gate in parameter.detach().view(gates, size, size):
            torch.testing.assert_close(gate @ gate.T, torch.eye(size))
    for ending, width in (("l0", inputs), ("l1_reverse", 2 * size)):
        weight = getattr(rnn, f"weight_ih_{ending}").detach()
        bound = math.sqrt(6 / (size + width))  # Xavier's, gate by gate
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.8 * bound
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in rnn.parameters())


def test_only_the_forget_gates_of_an_lstm_start_with_a_bias() -> None:
    for name, bias in recurrent_layers("lstm", 4, 5, 2, bidirectional=True).named_parameters():
        if name.startswith("bias"):
            expected = torch.zeros(4, 5)
            expected[1] = float(name.startswith("bias_ih"))  # one, not one on either side
            assert torch.equal(bias.detach().view(4, 5), expected), name


def test_a_gru_starts_without_biases() -> None:
    for name, bias in recurrent_layers("gru", 4, 5, 2).named_parameters():
        assert not name.startswith("bias") or not bias.any()


def test_an_lstm_that_is_told_nothing_forgets_slowly() -> None:
    rnn = recurrent_layers("lstm", 1, 2, 1)
    start = (torch.zeros(1, 1, 2), torch.ones(1, 1, 2))
    _, (_, cell) = rnn(torch.zeros(1, 1, 1), start)
    torch.testing.assert_close(cell, torch.full((1, 1, 2), 1 / (1 + math.exp(-1))))


@pytest.mark.filterwarnings("error")
def test_a_single_layer_with_dropout_is_nothing_to_warn_about() -> None:
    assert recurrent_layers("gru", 2, 3, 1, dropout=0.5).dropout == 0
    assert recurrent_layers("gru", 2, 3, 2, dropout=0.5).dropout == 0.5


@pytest.mark.parametrize("make", [lambda: recurrent_layers("rnn", 2, 3, 1), lambda: RecurrentDecoder("", 2, 3, 1)])
def test_a_cell_that_does_not_exist_is_refused_with_those_that_do(make: type[nn.Module]) -> None:
    with pytest.raises(UsageError, match=r"no recurrent cell called '(rnn)?': choose one of gru, lstm") as error:
        make()
    assert "\n" not in str(error.value)
