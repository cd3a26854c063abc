"""Algorithms as they are learnt: random episodes, the cross-entropy of every answered bit, and how many are wrong."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import Place
from regard.data.episodes import Algorithm, Episodes, Length, Lengths, follow, held_out, named_algorithm
from regard.errors import UsageError
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_LENGTHS, VALIDATION_EPISODES = 5, 32  # from the shortest to the longest trained on, and of each so many


@dataclass(frozen=True)
class AlgorithmData:
    """The `data` section of an algorithm recipe. Lengths are vectors to remember, or items for recall."""

    name: str = "copy"  # copy, repeat-copy or recall
    bits: int = 8  # of each vector
    shortest: int = 1  # length trained on
    longest: int = 20
    most_repeats: int = 1  # for repeat-copy: so many or fewer
    test_lengths: tuple[int, ...] = (10, 20, 40, 60, 100)

    def __post_init__(self) -> None:
        for name in ("bits", "shortest", "most_repeats"):
            if getattr(self, name) < 1:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must be at least 1")
        if self.longest < self.shortest:
            raise UsageError(f"data.longest is {self.longest} but data.shortest is {self.shortest}: no length between")
        if self.most_repeats > 1 and self.name != "repeat-copy":
            raise UsageError(f"data.most_repeats is {self.most_repeats} but {self.name} repeats nothing")
        algorithm = self.algorithm()
        for count in (self.shortest, *self.test_lengths):
            algorithm.steps(Length(count))

    def algorithm(self) -> Algorithm:
        return named_algorithm(self.name, self.bits)

    def lengths(self) -> Lengths:
        return Lengths(self.shortest, self.longest, self.most_repeats)

    def length(self, count: int) -> Length:
        """For a test: with as many repeats as there may be."""
        return Length(count, self.most_repeats)


class AlgorithmTask:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(self, data: AlgorithmData, training: Training, device: torch.device):
        self.data, self.training, self.device = data, training, device
        self.algorithm = data.algorithm()

    def batches(self, place: Place) -> Iterator[tuple[Episodes, Place]]:
        return follow(self.algorithm, self.data.lengths(), self.training.batch_tokens, self.training.seed, place)

    def count(self, batch: Episodes) -> int:
        return len(batch) * batch.asked.sum().item() * self.algorithm.output_size

    def loss(self, model: nn.Module, batch: Episodes) -> Loss:
        logits, targets = answers(model, batch, self.device)
        total = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        return Loss(total, total.detach(), self.count(batch))

    def validate(self, model: nn.Module) -> dict[str, float]:
        nll, wrong, count = 0.0, 0, 0
        lengths = np.linspace(self.data.shortest, self.data.longest, VALIDATION_LENGTHS).round()
        for number in np.unique(lengths).astype(int).tolist():
            episodes = held_out(self.algorithm, "valid", VALIDATION_EPISODES, self.data.length(number))
            logits, targets = answers(model, episodes, self.device)
            nll += F.binary_cross_entropy_with_logits(logits, targets, reduction="sum").item()
            wrong += int(((logits > 0) != (targets > 0.5)).sum())
            count += self.count(episodes)
        sequences = VALIDATION_EPISODES * len(np.unique(lengths))
        return {"nll": nll / count, "bits_per_sequence": nll / math.log(2) / sequences, "wrong_bits": wrong / count}

    def lines(self, batch: Episodes) -> str:
        return f"{len(batch)} episodes of {batch.inputs.shape[1]} steps, number {batch.number}"


def answers(model: Any, episodes: Episodes, device: torch.device) -> tuple[Tensor, Tensor]:
    """Logits and targets [rows, asked steps, output_size] of the steps that ask for something."""
    logits = model(torch.from_numpy(episodes.inputs).to(device))
    asked = torch.from_numpy(episodes.asked)
    return logits[:, asked.to(device)], torch.from_numpy(episodes.targets)[:, asked].to(device)
