"""The verb: a trained model that solves episodes, tells how many bits were wrong, and shows its memory at work."""

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from regard.data.episodes import Episodes, Length, held_out
from regard.errors import UsageError
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.verbs import Verbs, as_json
from regard.views.memory import MemoryTrace

ALGORITHM = "algorithm.json"
STEPS_AT_ONCE = 4096  # of the episodes that are solved together; changes speed, never results
BOOTSTRAPS = 1000


@dataclass(frozen=True)
class LengthScores:
    """The episodes of one length."""

    length: str
    episodes: int
    wrong_bits: float  # share of the answered bits
    interval: tuple[float, float]  # 95 %, by drawing whole episodes again: the bits of one stand and fall together
    solved: float  # share of the episodes without a wrong bit
    bits_per_sequence: float  # cross-entropy


@dataclass(frozen=True)
class AlgorithmScores:
    """Everything `regard evaluate` reports."""

    algorithm: str
    lengths: list[LengthScores]

    def as_dict(self) -> dict[str, Any]:
        return {"algorithm": self.algorithm, "lengths": [asdict(scores) for scores in self.lengths]}

    def told(self) -> str:
        return "\n".join(
            f"{self.algorithm} {known.length:>5}  wrong bits {known.wrong_bits:7.2%}"
            f"  [{known.interval[0]:.2%}, {known.interval[1]:.2%}]"
            f"  {known.bits_per_sequence:.4g} bits per sequence, {known.solved:.0%} of {known.episodes} without a fault"
            for known in self.lengths
        )


class AlgorithmRunner(Verbs):
    """`solve` episodes, `evaluate` on held-out ones, `look` at the memory; `regard.load` makes one."""

    def __init__(self, model: nn.Module, data: AlgorithmData, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.data, self.algorithm = data, data.algorithm()

    def solve(self, inputs: ArrayLike | Episodes) -> NDArray[np.float32]:
        """The probability that each bit of each step is a one, for [steps, input_size] or a batch of such.

        Episodes over one's own bits come from `.algorithm.of(bits)`. An episode that is longer than the memory has
        cells is solved too; the heads then come round to cells that are in use.
        """
        given = inputs.inputs if isinstance(inputs, Episodes) else np.asarray(inputs, np.float32)
        batch = self._checked(given)
        rows = max(1, STEPS_AT_ONCE // batch.shape[1])
        with torch.inference_mode():
            parts = [self.model(part.to(self.device)).sigmoid().cpu().numpy() for part in batch.split(rows)]
        answers: NDArray[np.float32] = np.concatenate(parts)
        return answers if given.ndim == 3 else answers[0]

    def evaluate(
        self, split: str = "test", episodes: int = 100, finished: Callable[[int], None] | None = None
    ) -> AlgorithmScores:
        """Wrong bits by length, on episodes that are the same every time."""
        lengths = []
        for count in self.data.test_lengths:
            length = self.data.length(count)
            lengths.append(self._score(length, held_out(self.algorithm, split, episodes, length)))
            if finished:
                finished(episodes)
        return AlgorithmScores(self.data.name, lengths)

    def _score(self, length: Length, episodes: Episodes) -> LengthScores:
        said = self.solve(episodes)[:, episodes.asked].astype(np.float64)
        targets = episodes.targets[:, episodes.asked]
        wrong = ((said > 0.5) != (targets > 0.5)).mean((1, 2))
        right = np.where(targets > 0.5, said, 1 - said).clip(1e-12)
        again = np.random.default_rng(0).integers(0, len(wrong), (BOOTSTRAPS, len(wrong)))
        low, high = np.quantile(wrong[again].mean(1), (0.025, 0.975))
        return LengthScores(
            str(length),
            len(wrong),
            float(wrong.mean()),
            (float(low), float(high)),
            float((wrong == 0).mean()),
            float(-np.log(right).sum((1, 2)).mean() / math.log(2)),
        )

    def look(self, episodes: Episodes | str) -> MemoryTrace:
        """What the heads did in one episode, or in one that is described like `copy:20`."""
        if isinstance(episodes, str):
            episodes = self.episode(episodes)
        model: Any = self.model
        if not hasattr(model, "trace"):
            raise UsageError(f"a {type(model).__name__} has no memory to look at: look at a run of an ntm")
        if len(episodes) == 0:
            raise UsageError("there is no episode to look at: give at least one")
        with torch.inference_mode():
            trace = model.trace(self._checked(episodes.inputs[:1]).to(self.device))

        def steps(tensor: Tensor) -> NDArray[np.float32]:
            return tensor[0].float().cpu().numpy()

        return MemoryTrace(
            inputs=episodes.inputs[0],
            targets=episodes.targets[0],
            asked=episodes.asked,
            outputs=steps(trace.logits.sigmoid()),
            reads=steps(trace.reads),
            adds=steps(trace.adds),
            read_weights=steps(trace.read_weights),
            write_weights=steps(trace.write_weights),
            memory=steps(trace.memory),
        )

    def episode(self, text: str) -> Episodes:
        """The held-out episode that `copy:20`, `repeat-copy:10x5` or just `20` describes."""
        return held_out(self.algorithm, "test", 1, self.length(text))

    def length(self, text: str) -> Length:
        """The length of the episode that a text describes; `.algorithm.steps` says how many steps it has."""
        found = re.fullmatch(r"(?:(?P<name>[\w-]+):)?(?P<count>\d{1,4})(?:x(?P<repeats>\d{1,4}))?", text.strip())
        if found is None:
            raise UsageError(f"{text!r} describes no episode: write {self.data.name}:20, or just its length")
        if found["name"] not in (None, self.data.name):
            raise UsageError(f"this run has learnt {self.data.name}, not {found['name']!r}: write {self.data.name}:20")
        return Length(int(found["count"]), int(found["repeats"] or self.data.most_repeats))

    def files(self) -> dict[str, str]:
        return super().files() | {ALGORITHM: as_json(asdict(self.data))}

    def _checked(self, inputs: NDArray[np.float32]) -> Tensor:
        """As a batch [rows, steps, input_size]; anything else is refused."""
        batch = inputs[None] if inputs.ndim == 2 else inputs
        wanted = self.algorithm.input_size
        if batch.ndim != 3 or 0 in batch.shape[:2]:
            raise UsageError(f"episodes of shape {inputs.shape} are empty: give [steps, {wanted}], at least one step")
        if batch.shape[2] != wanted:
            raise UsageError(
                f"these episodes have {batch.shape[2]} channels but {self.data.name} over {self.data.bits} bits has "
                f"{wanted}: use .algorithm.of(bits) to make them"
            )
        return torch.from_numpy(np.ascontiguousarray(batch, np.float32))
