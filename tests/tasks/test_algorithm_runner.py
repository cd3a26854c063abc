"""The runner: solving, scoring and looking, and what it refuses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.episodes import Copy, Length, held_out
from regard.errors import UsageError
from regard.looking import draw
from regard.models import lstm, ntm
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.algorithm_runner import AlgorithmRunner

DATA = AlgorithmData(bits=3, longest=4, test_lengths=(2, 5))


class Forgetting(nn.Module):
    """Copies, but only the first `known` vectors; then it says ones."""

    def __init__(self, known: int):
        super().__init__()
        self.known, self.nothing = known, nn.Parameter(torch.zeros(()))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        ago = inputs.shape[1] // 2 + 1
        copied = F.pad(inputs[:, :-ago, :-1], (0, 0, ago, 0))
        copied[:, ago + self.known :] = 1
        return 20 * copied


@pytest.fixture
def runner() -> AlgorithmRunner:
    torch.manual_seed(0)
    return AlgorithmRunner(ntm.NeuralTuringMachine(ntm.Config(4, 3, controller_size=6, cells=6, cell_size=4)), DATA)


def test_solve_gives_a_probability_for_every_bit(runner: AlgorithmRunner) -> None:
    bits = np.ones((1, 2, 3), np.float32)
    episodes = runner.algorithm.of(bits)
    said = runner.solve(episodes)
    assert said.shape == (1, 5, 3)
    assert ((said > 0) & (said < 1)).all()
    np.testing.assert_allclose(runner.solve(episodes.inputs[0]), said[0], rtol=1e-6)
    np.testing.assert_allclose(runner.solve(episodes.inputs[0].tolist()), said[0], rtol=1e-6)


def test_solving_in_small_pieces_changes_nothing(runner: AlgorithmRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = held_out(runner.algorithm, "test", 7, Length(3))
    whole = runner.solve(episodes)
    monkeypatch.setattr("regard.tasks.algorithm_runner.STEPS_AT_ONCE", 15)
    np.testing.assert_allclose(runner.solve(episodes), whole, rtol=1e-5)


def test_an_episode_longer_than_the_memory_is_solved_all_the_same(runner: AlgorithmRunner) -> None:
    said = runner.solve(held_out(runner.algorithm, "test", 1, Length(20)))
    assert np.isfinite(said).all()


def test_the_wrong_bits_are_counted_by_length() -> None:
    scores = AlgorithmRunner(Forgetting(2), DATA).evaluate(episodes=50)
    two, five = scores.lengths
    assert (two.length, two.episodes, two.wrong_bits, two.solved) == ("2", 50, 0, 1)
    episodes = held_out(Copy(3), "test", 50, Length(5))
    expected = (episodes.targets[:, 8:] == 0).sum() / (50 * 5 * 3)
    assert five.wrong_bits == pytest.approx(expected)
    assert five.interval[0] < five.wrong_bits < five.interval[1]
    assert five.bits_per_sequence > 100 * two.bits_per_sequence
    assert scores.as_dict()["lengths"][1]["wrong_bits"] == five.wrong_bits
    assert re.search(r"copy +5  wrong bits +\d+\.\d\d%  \[", scores.told())


def test_scores_are_the_same_every_time_and_differ_by_split(runner: AlgorithmRunner) -> None:
    assert runner.evaluate("test", 5) == runner.evaluate("test", 5)
    assert runner.evaluate("test", 5) != runner.evaluate("valid", 5)
    with pytest.raises(UsageError, match="no split called 'train'"):
        runner.evaluate("train")


def test_look_shows_what_the_model_did(runner: AlgorithmRunner) -> None:
    episodes = held_out(runner.algorithm, "test", 1, Length(3))
    trace = runner.look(episodes)
    np.testing.assert_allclose(trace.outputs, runner.solve(episodes)[0], rtol=1e-5)
    assert trace.read_weights.shape == trace.write_weights.shape == (7, 1, 6)
    assert trace.memory.shape == (7, 6, 4)
    np.testing.assert_array_equal(runner.look("copy:3").outputs, trace.outputs)
    np.testing.assert_array_equal(runner.look(" 3 ").outputs, trace.outputs)


def test_an_episode_may_be_described_with_its_repeats() -> None:
    data = AlgorithmData("repeat-copy", bits=3, longest=4, most_repeats=5)
    model = ntm.NeuralTuringMachine(ntm.Config(4, 4, controller_size=6, cells=6, cell_size=4))
    runner = AlgorithmRunner(model, data)
    assert runner.episode("repeat-copy:2x3").inputs.shape[1] == 2 + 1 + 6 + 1
    assert runner.episode("2").inputs.shape[1] == 2 + 1 + 10 + 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("copy:0", "length of 0"),
        ("copy:-3", "describes no episode: write copy:20"),
        ("recall:3", "has learnt copy, not 'recall'"),
        ("the red car", "describes no episode"),
        ("copy:99999999999", "describes no episode"),
    ],
)
def test_what_describes_no_episode_is_refused(runner: AlgorithmRunner, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        runner.look(text)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (np.zeros((0, 4)), "are empty"),
        (np.zeros((0, 5, 4)), "are empty"),
        ([], "are empty"),
        (np.zeros((5, 3)), r"have 3 channels but copy over 3 bits has 4: use .algorithm.of"),
        (np.zeros((1, 1, 5, 4)), "are empty"),
    ],
)
def test_inputs_of_another_shape_are_refused(runner: AlgorithmRunner, inputs: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        runner.solve(inputs)


def test_a_model_without_a_memory_cannot_be_looked_into() -> None:
    runner = AlgorithmRunner(lstm.LongShortTermMemory(lstm.Config(4, 3, size=4, layers=1)), DATA)
    assert runner.solve(runner.episode("2")).shape == (1, 5, 3)
    with pytest.raises(UsageError, match="has no memory to look at"):
        runner.look("copy:2")


def test_the_picture_is_drawn_or_told(runner: AlgorithmRunner, tmp_path: Path) -> None:
    path = tmp_path / "memory.svg"
    told = draw(runner, "copy:3", None, None, None, str(path))
    assert "of 9 answered bits are wrong" in told
    assert str(path) in told
    assert "write weights" in path.read_text("utf-8")
    assert "answered bits are wrong" in draw(runner, "copy:3", None, None, None, None)
