"""The verb: a trained player, its games, and how it compares with others on the same arms with the same luck."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.data.bandits import Bandits, held_out
from regard.errors import UsageError
from regard.tasks.bandit import BanditData, rollout
from regard.tasks.bandit_players import PLAYERS, Played, play
from regard.tasks.classification_scores import Z
from regard.tasks.verbs import Verbs, as_json

BANDIT = "bandit.json"
BANDITS = 1000


@dataclass(frozen=True)
class PlayerScores:
    """What one player won per bandit, and how much more the trained player won on the same ones."""

    reward: float
    interval: tuple[float, float]  # 95 %
    shortfall: float  # of the chances of the pulled arms below the best arm's, summed over a game
    behind: float  # what the trained player won more
    behind_interval: tuple[float, float]  # 95 %, of the differences bandit by bandit


@dataclass(frozen=True)
class BanditScores:
    """Everything `regard evaluate` reports of a player."""

    arms: int
    pulls: int
    bandits: int
    players: dict[str, PlayerScores]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        lines = [f"{self.bandits} bandits of {self.arms} arms, {self.pulls} pulls: pay of a game"]
        for name, known in self.players.items():
            compared = (
                f"  we win {known.behind:+.2f} [{known.behind_interval[0]:+.2f}, {known.behind_interval[1]:+.2f}]"
            )
            lines.append(
                f"{name:<11} {known.reward:6.2f} [{known.interval[0]:.2f}, {known.interval[1]:.2f}]"
                f"  shortfall {known.shortfall:5.2f}" + compared * (name != "snail")
            )
        return "\n".join(lines)


class BanditPlayer(Verbs):
    """`play` bandits, `evaluate` against others; `regard.load` makes one."""

    def __init__(self, model: nn.Module, data: BanditData, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.data = data

    def play(self, bandits: Bandits) -> Played:
        """Pull the arm it thinks best, in all bandits side by side."""
        if bandits.arms != self.data.arms:
            raise UsageError(f"this run plays bandits of {self.data.arms} arms, not of {bandits.arms}")
        with torch.inference_mode():
            games = rollout(self.model, bandits, self.device)
        return Played(games.arms.cpu().numpy(), games.rewards.cpu().numpy() > 0.5)

    def evaluate(
        self, split: str = "test", bandits: int = BANDITS, finished: Callable[[int], None] | None = None
    ) -> BanditScores:
        """On bandits that are the same every time."""
        held = held_out(split, bandits, self.data.arms, self.data.pulls)
        ours = self.play(held)
        players = {"snail": _scores(held, ours, ours)}
        for name, player in PLAYERS.items():
            players[name] = _scores(held, play(player, held), ours)
            if finished:
                finished(1)
        return BanditScores(self.data.arms, self.data.pulls, bandits, players)

    def files(self) -> dict[str, str]:
        return super().files() | {BANDIT: as_json(asdict(self.data))}


def _scores(bandits: Bandits, played: Played, ours: Played) -> PlayerScores:
    pulled = np.take_along_axis(bandits.chances, played.arms, 1)
    shortfall = (bandits.chances.max(1, keepdims=True) - pulled).sum(1, dtype=np.float64).mean()
    reward, interval = mean_and_interval(played.totals)
    behind, behind_interval = mean_and_interval(ours.totals - played.totals)
    return PlayerScores(reward, interval, float(shortfall), behind, behind_interval)


def mean_and_interval(values: NDArray[np.floating]) -> tuple[float, tuple[float, float]]:
    """The mean of independent values, and the 95 % interval of that mean."""
    mean = float(values.mean())
    half = Z * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return mean, (mean - half, mean + half)
