"""The LSTM over vectors: torch's own, with padding that changes nothing."""

import pytest
import torch

from regard.errors import UsageError
from regard.models.lstm import PRESETS, Config, LongShortTermMemory


def test_it_is_torchs_lstm_and_one_layer_of_logits() -> None:
    model = LongShortTermMemory(Config(3, 2, size=4, layers=2)).eval()
    inputs = torch.randn(2, 5, 3)
    states, _ = model.recurrent.rnn(inputs)
    torch.testing.assert_close(model(inputs), model.output(states))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(side: str) -> None:
    model = LongShortTermMemory(Config(3, 2, size=4, layers=2)).eval()
    inputs, noise = torch.randn(2, 3, 3), torch.randn(2, 2, 3)
    mask = torch.tensor([[True] * 3 + [False] * 2] * 2)
    padded = torch.cat([inputs, noise] if side == "right" else [noise, inputs], 1)
    mask = mask if side == "right" else mask.flip(1)
    torch.testing.assert_close(model(padded, mask)[mask].view(2, 3, 2), model(inputs))


def test_the_papers_size_has_about_the_papers_parameters() -> None:
    model = LongShortTermMemory(Config(9, 8, **PRESETS["paper"]))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert abs(count - 1_352_969) < 30_000  # Table 3; biases and channels are counted a little differently


@pytest.mark.parametrize("changes", [dict(size=0), dict(layers=-1), dict(input_size=0)])
def test_impossible_sizes_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        Config(**{"input_size": 3, "output_size": 2, **changes})
