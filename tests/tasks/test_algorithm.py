"""Learning an algorithm: the loss of the answered bits, the validation, and the section of the recipe."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import settings
from regard.data.batching import Place
from regard.data.episodes import Copy, Length, held_out
from regard.errors import UsageError
from regard.tasks.algorithm import AlgorithmData, AlgorithmTask
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.training.settings import Training

CPU = torch.device("cpu")
SECTION = AlgorithmData(bits=3, longest=4)


class Constant(nn.Module):
    """Says the same logit for ever."""

    def __init__(self, logit: float, size: int = 3):
        super().__init__()
        self.logit, self.size = nn.Parameter(torch.tensor(logit)), size

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.logit.expand(*inputs.shape[:2], self.size)


class Knowing(nn.Module):
    """Copies without learning: says the input of so many steps ago."""

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        ago = inputs.shape[1] // 2 + 1
        return 20 * F.pad(inputs[:, :-ago, :-1], (0, 0, ago, 0))


def task(data: AlgorithmData = SECTION, **changes: Any) -> AlgorithmTask:
    return AlgorithmTask(data, Training(batch_tokens=40, **changes), CPU)


def test_the_loss_is_summed_over_the_answered_bits_alone() -> None:
    episodes = Copy(3).draw(np.random.default_rng(0), 2, Length(2))
    loss = task().loss(Constant(1.5), episodes)
    bits = episodes.targets[:, 3:].flatten().tolist()
    assert len(bits) == loss.count == task().count(episodes) == 2 * 2 * 3
    expected = sum(math.log1p(math.exp(-1.5)) if bit else math.log1p(math.exp(1.5)) for bit in bits)
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.nll.item() == loss.total.item()
    assert loss.total.requires_grad
    assert not loss.nll.requires_grad


def test_who_knows_nothing_pays_one_bit_per_bit_and_who_copies_pays_nothing() -> None:
    ignorant, knowing = task().validate(Constant(0.0)), task().validate(Knowing())
    assert ignorant["nll"] == pytest.approx(math.log(2))
    assert ignorant["bits_per_sequence"] == pytest.approx(3 * (1 + 2 + 3 + 4) / 4)  # lengths 1 to 4, 3 bits each
    assert 0.3 < ignorant["wrong_bits"] < 0.7
    assert knowing["nll"] < 1e-6
    assert knowing["wrong_bits"] == 0


def test_validation_is_the_same_whatever_the_seed_of_the_training() -> None:
    assert task(seed=1).validate(Constant(0.7)) == task(seed=2).validate(Constant(0.7))


def test_batches_follow_the_seed_and_the_place() -> None:
    first = next(task(seed=1).batches(Place(0, 3)))[0]
    again = next(task(seed=1).batches(Place(0, 3)))[0]
    other = next(task(seed=2).batches(Place(0, 3)))[0]
    assert (first.inputs == again.inputs).all()
    assert first.inputs.shape != other.inputs.shape or (first.inputs != other.inputs).any()
    assert "number 3" in task().lines(first)


def test_a_checkpoint_says_what_was_learnt() -> None:
    files = AlgorithmRunner(nn.Linear(1, 1), SECTION, '{"family": "ntm"}').files()
    assert files["config.json"] == '{"family": "ntm"}'
    values = json.loads(files["algorithm.json"])
    assert settings.build(AlgorithmData, values, "algorithm.json") == SECTION


def test_repeats_of_a_test_are_the_most_of_the_training() -> None:
    data = AlgorithmData("repeat-copy", bits=3, longest=4, most_repeats=5)
    assert str(data.length(7)) == "7x5"
    assert held_out(data.algorithm(), "test", 1, data.length(7)).inputs.shape[1] == 7 + 1 + 35 + 1


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": "sort"}, "no algorithm called 'sort'"),
        ({"bits": 0}, "data.bits is 0"),
        ({"shortest": 0}, "data.shortest is 0"),
        ({"shortest": 5, "longest": 4}, "data.longest is 4 but data.shortest is 5"),
        ({"most_repeats": 3}, "copy repeats nothing"),
        ({"test_lengths": [10, 0]}, "length of 0"),
        ({"name": "recall", "shortest": 1}, "at least 2 items"),
        ({"name": "recall", "shortest": 2, "test_lengths": [1]}, "at least 2 items"),
        ({"lenght": 3}, "no key 'lenght'"),
        ({"longest": "many"}, "data.longest is 'many' but must be a whole number"),
    ],
)
def test_a_wrong_section_is_refused_in_one_line(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        settings.build(AlgorithmData, values, "data")
    assert "\n" not in str(refused.value)
