"""The encoder-decoder without attention, against a loop that spells out its equations."""

import pytest
import torch
from torch import Tensor

from equations import read, shaken, stack_step
from regard.errors import UsageError
from regard.models.encoder_decoder import PRESETS, Config, EncoderDecoder

SIZES = dict(vocabulary=9, embedding_size=4, size=3, readout_size=5)
SOURCES = [[3, 1, 4, 1, 5], [8], [2, 6, 7]]
TARGETS = [[5, 2], [1, 7, 3, 3], [4]]


def network(**changes: object) -> EncoderDecoder:
    torch.manual_seed(0)
    model = EncoderDecoder(Config(**{**SIZES, **changes}))
    shaken(model)
    return model


def table(rows: list[list[int]], side: str) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(r)) + r if side == "left" else r + [0] * (width - len(r)) for r in rows])


def spelled_out(model: EncoderDecoder, source: list[int], target: list[int]) -> Tensor:
    """Logits [target, vocabulary], word by word."""
    config, embedding = model.config, model.words.embedding.weight
    _, ends = read(model.encoder.rnn, embedding[source], config.reverse)
    c = ends[-1][0]
    layers = []
    for number, (h, cell) in enumerate(ends):
        first = torch.tanh(model.bridge.states[number].weight @ h + model.bridge.states[number].bias)
        kept = first  # a GRU has no cell
        if config.cell == "lstm":
            kept = torch.tanh(model.bridge.cells[number].weight @ cell + model.bridge.cells[number].bias)
        layers.append((first, kept))
    said = []
    for word in target:
        y = embedding[word]
        shown = [c] if config.context_everywhere else []
        layers = stack_step(model.decoder.rnn, torch.cat([y, *shown]), layers)
        s = layers[-1][0]
        t = torch.tanh(model.readout.weight @ torch.cat([s, y, *shown]) + model.readout.bias)
        said.append((embedding if config.tied else model.words.output.weight) @ t)
    return torch.stack(said)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        dict(context_everywhere=False),
        dict(cell="lstm", layers=2, reverse=True),
        dict(cell="lstm", layers=3, context_everywhere=False),
        dict(readout_size=4, tied=True, layers=2),
        dict(bidirectional=True),
        dict(bidirectional=True, reverse=True, cell="lstm", layers=2, context_everywhere=False),
    ],
    ids=str,
)
def test_the_network_is_the_equations(changes: dict[str, object], side: str) -> None:
    model = network(**changes)
    logits, target = model(table(SOURCES, side), table(TARGETS, side)), table(TARGETS, side)
    for row in range(len(SOURCES)):
        torch.testing.assert_close(logits[row, target[row] != 0], spelled_out(model, SOURCES[row], TARGETS[row]))


def test_the_sentence_is_known_by_its_last_state_alone() -> None:
    """Two sources that leave the same last state are the same source: that is the bottleneck."""
    model = network(context_everywhere=True)
    states = model.start(torch.tensor([[3, 1, 4], [6, 1, 4]]))
    assert states.context.shape == (2, SIZES["size"])
    logits, _ = model.step(torch.tensor([5, 5]), states)
    assert not torch.allclose(logits[0], logits[1])
    with torch.no_grad():
        for name, gate in model.encoder.rnn.named_parameters():
            if name.startswith("bias_ih"):
                gate[SIZES["size"] : 2 * SIZES["size"]] = -100.0  # z = 0: nothing of the state before is carried on ...
            if name.startswith("weight_hh"):
                gate.zero_()  # ... nor heard
    logits, _ = model.step(torch.tensor([5, 5]), model.start(torch.tensor([[3, 1, 4], [6, 1, 4]])))
    torch.testing.assert_close(logits[0], logits[1])


def test_the_context_is_shown_everywhere_or_only_at_the_start() -> None:
    everywhere, start_only = network(), network(context_everywhere=False)
    assert everywhere.decoder.rnn.input_size == SIZES["embedding_size"] + SIZES["size"]
    assert start_only.decoder.rnn.input_size == SIZES["embedding_size"]
    assert everywhere.readout.in_features == start_only.readout.in_features + SIZES["size"]


# Sizes


def gru(inputs: int, size: int) -> int:
    return 3 * size * (inputs + size + 2)


def lstm(inputs: int, size: int) -> int:
    return 4 * size * (inputs + size + 2)


def count(vocabulary: int, preset: str) -> int:
    with torch.device("meta"):
        model = EncoderDecoder(Config(vocabulary=vocabulary, **PRESETS[preset]))
    return sum(parameter.numel() for parameter in model.parameters())


def test_cho_has_as_many_parameters_as_the_paper() -> None:
    words, decoder = 15_000 * 620 + 500 * 15_000, gru(620 + 1000, 1000)
    bridge, readout = 1000 * 1000 + 1000, (1000 + 620 + 1000) * 500 + 500
    assert count(15_000, "cho") == words + gru(620, 1000) + bridge + decoder + readout


def test_sutskever_has_as_many_parameters_as_the_paper() -> None:
    recurrent = 2 * 4 * lstm(1000, 1000)  # 64M pure recurrent connections in the paper, and the biases
    assert recurrent - 2 * 4 * 8 * 1000 == 64_000_000
    bridges, readout = 8 * (1000 * 1000 + 1000), 2000 * 1000 + 1000
    assert count(80_000, "sutskever") == 2 * 80_000 * 1000 + recurrent + bridges + readout


def test_small_is_small() -> None:
    recurrent = 2 * gru(256, 256) + gru(256 + 512, 256)
    assert count(5000, "small") == 5000 * 256 + recurrent + (512 * 256 + 256) + ((256 + 256 + 512) * 256 + 256)


def test_every_preset_builds() -> None:
    assert all(count(10, preset) > 0 for preset in PRESETS)


def test_every_preset_can_be_run() -> None:
    for preset, values in PRESETS.items():
        model = network(**{key: 4 if key.endswith("size") else value for key, value in values.items()})
        assert torch.isfinite(model(table(SOURCES, "left"), table(TARGETS, "left"))).all(), preset


# Refusals


def test_tied_words_need_equal_sizes() -> None:
    with pytest.raises(UsageError, match=r"read as 4 numbers but said from 5: model\.tied") as error:
        network(tied=True)
    assert "\n" not in str(error.value)


def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'elman': choose one of gru, lstm"):
        network(cell="elman")
