"""The Neural Turing Machine: its loop against the equations, its padding, its trace, and that it learns."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import attentions, record
from regard.data.episodes import Copy, Length
from regard.errors import UsageError
from regard.layers.addressing import wishes_size
from regard.models.ntm import EMPTY, PRESETS, Config, NeuralTuringMachine

SMALL = Config(3, 2, controller_size=5, cells=6, cell_size=4)
SEVERAL = dataclasses.replace(SMALL, controller="lstm", read_heads=2, write_heads=3)
every_config = pytest.mark.parametrize("config", [SMALL, SEVERAL], ids=["feed-forward", "lstm and several heads"])


def machine(config: Config = SMALL, seed: int = 0) -> NeuralTuringMachine:
    torch.manual_seed(seed)
    return NeuralTuringMachine(config).eval()


def address(wish: Tensor, memory: Tensor, before: Tensor) -> Tensor:
    """Section 3.3 for one head of one row, shift 1."""
    size = memory.shape[1]
    content = (F.softplus(wish[size]) * F.cosine_similarity(wish[None, :size], memory)).softmax(0)
    gate, moves = wish[size + 1].sigmoid(), wish[size + 2 : size + 5].softmax(0)
    gated = gate * content + (1 - gate) * before
    moved = moves[0] * gated.roll(-1) + moves[1] * gated + moves[2] * gated.roll(1)
    power = moved ** (1 + F.softplus(wish[size + 5]))
    return power / power.sum()


def test_the_loop_is_the_papers_for_one_row() -> None:
    model = machine()
    inputs = torch.randn(1, 4, 3)
    memory, reads = torch.full((6, 4), EMPTY), model.first_reads[0]
    reading, writing = model.first_places.softmax(-1)
    said = []
    for x in inputs[0]:
        hidden = torch.tanh(model.controller.input(x) + model.controller.read(reads))
        wishes = model.wishes(hidden)
        size = wishes_size(4, 1)
        reading = address(wishes[:size], memory, reading)
        writing = address(wishes[size : 2 * size], memory, writing)
        erase, add = wishes[2 * size : 2 * size + 4].sigmoid(), wishes[2 * size + 4 :]
        reads = reading @ memory
        memory = memory * (1 - writing[:, None] * erase) + writing[:, None] * add
        said.append(model.output(torch.cat([hidden, reads])))
    torch.testing.assert_close(model(inputs)[0], torch.stack(said), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model.trace(inputs).memory[0, -1], memory, atol=1e-5, rtol=1e-4)


def test_the_lstm_controller_is_torchs_lstm_cell() -> None:
    controller = machine(SEVERAL).controller
    cell = torch.nn.LSTMCell(3 + 8, 5)
    order = torch.tensor([0, 1, 3, 2])  # torch: enter, keep, new, leave; ours: enter, keep, leave, new
    inner = controller.read.weight.detach().view(4, 5, 13)[order].reshape(20, 13)
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([controller.input.weight.view(4, 5, 3)[order].reshape(20, 3), inner[:, :8]], 1))
        cell.weight_hh.copy_(inner[:, 8:])
        cell.bias_ih.copy_(controller.input.bias.view(4, 5)[order].reshape(20))
        cell.bias_hh.zero_()
    x, reads, hidden = torch.randn(2, 3), torch.randn(2, 8), torch.randn(2, 2, 5)
    output, after = controller(controller.input(x), reads, hidden)
    state, memory = cell(torch.cat([x, reads], 1), (hidden[:, 0], hidden[:, 1]))
    torch.testing.assert_close(output, state)
    torch.testing.assert_close(after, torch.stack([state, memory], 1))


@every_config
def test_steps_under_a_mask_leave_everything_as_it_was(config: Config) -> None:
    model, inputs = machine(config), torch.randn(2, 6, 3)
    real = torch.tensor([True, False, True, True, False, False])
    padded = model.trace(inputs, real.expand(2, -1))
    plain = model.trace(inputs[:, real])
    torch.testing.assert_close(padded.logits[:, real], plain.logits)
    torch.testing.assert_close(padded.memory[:, -1], plain.memory[:, -1])
    torch.testing.assert_close(padded.write_weights[:, 1], padded.write_weights[:, 0])


def test_an_episode_without_a_real_step_is_finite_and_moves_nothing() -> None:
    model, inputs = machine(), torch.randn(2, 3, 3)
    trace = model.trace(inputs, torch.zeros(2, 3, dtype=torch.bool))
    assert torch.isfinite(trace.logits).all()
    assert (trace.memory == EMPTY).all()


@every_config
def test_the_trace_is_what_the_model_did(config: Config) -> None:
    model, inputs = machine(config), torch.randn(2, 4, 3)
    with record(model) as tape:
        trace = model.trace(inputs)
    assert [name for name, _ in attentions(model)] == list(tape) == ["addressing"]
    heads = config.read_heads + config.write_heads
    weights = tape["addressing"].view(2, 4, heads, config.cells)  # the heads of one step are the queries of one call
    assert torch.equal(weights, torch.cat([trace.read_weights, trace.write_weights], 2))
    assert torch.equal(trace.logits, model(inputs))
    before = torch.cat([torch.full_like(trace.memory[:, :1], EMPTY), trace.memory[:, :-1]], 1)
    torch.testing.assert_close(trace.reads, trace.read_weights @ before)


@every_config
def test_an_episode_longer_than_the_memory_is_defined(config: Config) -> None:
    said = machine(config)(torch.randn(1, 5 * config.cells, 3))
    assert torch.isfinite(said).all()


def test_every_head_begins_at_a_place_and_not_everywhere() -> None:
    first = machine().first_places.softmax(-1)
    assert (first.argmax(-1) == 0).all()
    assert (first[:, 0] > 2 / SMALL.cells).all()


def test_the_papers_size_has_about_the_papers_parameters() -> None:
    model = NeuralTuringMachine(Config(9, 8, **PRESETS["paper"]))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert 12_000 < count < 17_200  # Table 1 says 17,162; it learns the memory's first content as well


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(controller="gru"), "there is no controller called 'gru': choose one of feedforward, lstm"),
        (dict(cells=0), "model.cells is 0 but must be at least 1"),
        (dict(read_heads=-1), "model.read_heads is -1 but must be at least 1"),
        (dict(shift=-1), "model.shift is -1 but must be at least 0"),
        (dict(cells=4, shift=2), "model.shift=2 reaches around a memory of 4 cells"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        dataclasses.replace(SMALL, **changes)


def test_it_learns_to_copy_a_vector() -> None:
    torch.manual_seed(1)
    algorithm, config = Copy(2), Config(3, 2, controller_size=16, cells=6, cell_size=4)
    model = NeuralTuringMachine(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    draw = np.random.default_rng(0)
    losses = []
    for _ in range(24):
        episodes = algorithm.draw(draw, 16, Length(1))
        said = model(torch.from_numpy(episodes.inputs))[:, episodes.asked]
        loss = F.binary_cross_entropy_with_logits(said, torch.from_numpy(episodes.targets[:, episodes.asked]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.6
    assert losses[-1] < 0.35
