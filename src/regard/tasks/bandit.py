"""Playing bandits as it is learnt: policy gradients over whole games, with a value as the baseline.

A batch of bandits is played once, all of them at the same time, with the weights as they are; then the finished games
are read in one pass and the policy moves towards what went better than expected (advantage actor-critic):

    loss = - sum_t log pi(a_t) A_t  +  value_weight sum_t (V_t - R_t)^2 / 2  -  entropy sum_t H(pi_t)

    c_t = chance of a_t - chance of the best arm,   R_t = sum_{s >= t} c_s
    A_t = sum_{s >= t} trace^(s - t) (c_s + V_{s+1} - V_s),   less its mean over the batch, divided by its deviation

What the player *sees* is whether an arm paid. What it is *judged* by is the arm's chance, compared with the best
arm's: that has the same mean up to a constant of the bandit, and no luck in it. Every draw depends on (seed, number of
the batch) alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.bandits import Bandits, follow, held_out
from regard.data.batching import Place
from regard.errors import UsageError
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_BANDITS = 500


@dataclass(frozen=True)
class BanditData:
    """The `data` section of a bandit recipe, and how it is learnt from."""

    arms: int = 5
    pulls: int = 20
    trace: float = 0.8  # how far an advantage looks ahead before it trusts the value
    value_weight: float = 0.5
    entropy: float = 0.02  # how much is paid for keeping the choice open

    def __post_init__(self) -> None:
        for name, least in (("arms", 2), ("pulls", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must be at least {least}")
        if not 0 <= self.trace <= 1:
            raise UsageError(f"data.trace is {self.trace} but must lie in [0, 1]")
        for name in ("value_weight", "entropy"):
            if getattr(self, name) < 0:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must not be negative")


@dataclass(frozen=True)
class Games:
    """What was pulled and what it paid."""

    arms: Tensor  # [rows, pulls]
    rewards: Tensor

    def before(self) -> tuple[Tensor, Tensor]:
        """What was known at each pull: the pull before it. Before the first there was none."""
        arms, rewards = self.arms.roll(1, 1), self.rewards.roll(1, 1)
        arms[:, 0], rewards[:, 0] = -1, 0.0
        return arms, rewards


class BanditTask:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(self, data: BanditData, training: Training, device: torch.device):
        self.data, self.training, self.device = data, training, device

    def batches(self, place: Place) -> Iterator[tuple[Bandits, Place]]:
        """As many bandits at once as their pulls fit into `training.batch_tokens`."""
        rows = max(1, self.training.batch_tokens // self.data.pulls)
        return follow(rows, self.data.arms, self.data.pulls, self.training.seed, place)

    def count(self, batch: Bandits) -> int:
        return len(batch) * batch.pulls

    def loss(self, model: nn.Module, batch: Bandits) -> Loss:
        everyone, rows = batch.among or (batch, slice(None))
        luck = np.random.default_rng((self.training.seed, batch.number, 1)).exponential(size=everyone.luck.shape)
        with torch.no_grad():
            games = rollout(model, everyone, self.device, torch.from_numpy(luck.astype(np.float32)))
        costs = shortfalls(everyone, games)
        total = policy_loss(model, games, costs, self.data, rows)
        return Loss(total, -costs[rows].sum(), self.count(batch))

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The nll that must fall is the shortfall per pull of the player that takes the best arm it knows."""
        bandits = held_out("valid", VALIDATION_BANDITS, self.data.arms, self.data.pulls)
        games = rollout(model, bandits, self.device)
        won = games.rewards.sum(1).mean().item()
        return {"nll": -shortfalls(bandits, games).mean().item(), "reward": won}

    def lines(self, batch: Bandits) -> str:
        return f"{len(batch)} bandits of {batch.arms} arms, number {batch.number}"


def rollout(model: Any, bandits: Bandits, device: torch.device, luck: Tensor | None = None) -> Games:
    """Play all bandits side by side; with `luck` (exponential draws) arms are drawn, else the best known is pulled."""
    rows = torch.arange(len(bandits), device=device)
    paid = torch.from_numpy(bandits.paid).to(device, torch.float32)
    luck = None if luck is None else luck.to(device)
    arm, reward = torch.full_like(rows, -1), torch.zeros(len(bandits), device=device)
    experience = model.start(len(bandits))
    arms, rewards = [], []
    for pull in range(bandits.pulls):
        logits, experience = model.step(arm, reward, experience)
        # The exponential race: the argmax of p / Exp(1) is a draw from p.
        arm = (logits if luck is None else logits - luck[:, pull].log()).argmax(-1)
        reward = paid[rows, pull, arm]
        arms.append(arm)
        rewards.append(reward)
    return Games(torch.stack(arms, 1), torch.stack(rewards, 1))


def shortfalls(bandits: Bandits, games: Games) -> Tensor:
    """[rows, pulls]: by how much the chance of the pulled arm was below the best arm's; zero or negative."""
    chances = torch.from_numpy(bandits.chances).to(games.arms.device)
    return chances.gather(1, games.arms) - chances.amax(1, keepdim=True)


def policy_loss(model: Any, games: Games, costs: Tensor, data: BanditData, rows: slice = slice(None)) -> Tensor:
    """Summed over all pulls of these rows, as the head of this file has it."""
    logits, values = model(*(known[rows] for known in games.before()))
    log_chances = logits.log_softmax(-1)
    taken = log_chances.gather(-1, games.arms[rows, :, None]).squeeze(-1)
    returns = costs[rows].flip(1).cumsum(1).flip(1)
    everyones = values.detach()
    if len(everyones) < len(costs):
        with torch.no_grad():
            _, everyones = model(*games.before())
    advantages = advantages_of(costs, everyones, data.trace)
    advantages = advantages - advantages.mean(0)  # a baseline even before the value is one
    advantages = (advantages / advantages.std(correction=0).clamp(min=1e-6))[rows]
    entropy = -(log_chances.exp() * log_chances).sum(-1)
    missed = (values - returns).square() / 2
    return (data.value_weight * missed - taken * advantages - data.entropy * entropy).sum()


def advantages_of(costs: Tensor, values: Tensor, trace: float) -> Tensor:
    """How much better each pull was than expected; after the last pull nothing is to be won."""
    ahead = torch.zeros_like(costs[:, 0])
    after = torch.zeros_like(ahead)
    found = []
    for cost, value in zip(costs.unbind(1)[::-1], values.unbind(1)[::-1], strict=True):
        ahead = cost + after - value + trace * ahead
        after = value
        found.append(ahead)
    return torch.stack(found[::-1], 1)
