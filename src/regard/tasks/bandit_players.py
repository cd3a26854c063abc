"""How others play bandits: by chance, by bounds (UCB1), by belief (Thompson), and nearly as well as one can (Gittins).

A player sees how often each arm was tried and how often it paid, for many bandits at once, and says which arm is next.

    random      any arm
    ucb1        the highest  mean + sqrt(2 ln t / n)                                       Auer et al. 2002
    ucb1-tuned  the highest  mean + sqrt(ln t / n min(1/4, v + sqrt(2 ln t / n)))          the same paper, section 4
    thompson    the highest of one draw per arm from its Beta(1 + wins, 1 + losses)        Thompson 1933
    gittins     the highest index: the sure pay per pull for which one would stop pulling the arm, with the pulls that
                are left. With a discount and without an end the index is optimal; with an end it is very nearly so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from regard.data.bandits import Bandits

Table = NDArray[np.float64]  # [rows, arms]
GRID = 200  # indices are known to 1 / GRID


@dataclass(frozen=True)
class Seen:
    """What there is to know before a pull."""

    tries: Table
    wins: Table
    left: int  # pulls, this one included
    draw: np.random.Generator


@dataclass(frozen=True, eq=False)
class Played:
    """What was pulled, and what it brought."""

    arms: NDArray[np.int64]  # [rows, pulls]
    rewards: NDArray[np.bool_]

    @property
    def totals(self) -> NDArray[np.float64]:
        """[rows]: all that was won."""
        return self.rewards.sum(1).astype(np.float64)


def play(player: "Player", bandits: Bandits, seed: int = 0) -> Played:
    """All bandits at once, pull after pull; the seed is for players who draw."""
    draw, rows = np.random.default_rng((seed, 1933)), np.arange(len(bandits))
    tries, wins = np.zeros((2, *bandits.chances.shape))
    paid = bandits.paid
    arms, rewards = [], []
    for pull in range(bandits.pulls):
        arm = player(Seen(tries, wins, bandits.pulls - pull, draw))
        reward = paid[rows, pull, arm]
        tries[rows, arm] += 1
        wins[rows, arm] += reward
        arms.append(arm)
        rewards.append(reward)
    return Played(np.stack(arms, 1), np.stack(rewards, 1))


def at_random(seen: Seen) -> NDArray[np.int64]:
    return seen.draw.integers(0, seen.tries.shape[1], len(seen.tries))


def ucb1(seen: Seen) -> NDArray[np.int64]:
    return _highest_bound(seen, lambda mean, spread: np.full_like(mean, 2.0))


def ucb1_tuned(seen: Seen) -> NDArray[np.int64]:
    return _highest_bound(seen, lambda mean, spread: np.minimum(0.25, mean * (1 - mean) + np.sqrt(2 * spread)))


def _highest_bound(seen: Seen, width: Callable[[Table, Table], Table]) -> NDArray[np.int64]:
    """The arm with the highest mean + sqrt(width ln t / n); an arm that was never tried comes first."""
    tried = np.maximum(seen.tries, 1)
    mean = seen.wins / tried
    spread = np.log(np.maximum(seen.tries.sum(1, keepdims=True), 1)) / tried
    bounds = mean + np.sqrt(width(mean, spread) * spread)
    return np.where(seen.tries == 0, np.inf, bounds).argmax(1)


def thompson(seen: Seen) -> NDArray[np.int64]:
    return seen.draw.beta(1 + seen.wins, 1 + seen.tries - seen.wins).argmax(1)


def gittins(seen: Seen) -> NDArray[np.int64]:
    longest = int(seen.left + seen.tries[0].sum())
    wins, losses = seen.wins.astype(np.int64), (seen.tries - seen.wins).astype(np.int64)
    return gittins_indices(longest)[seen.left][wins, losses].argmax(1)


@cache
def gittins_indices(pulls: int) -> tuple[Table, ...]:
    """By the number of pulls that are left: [wins, losses].

    With m pulls left and a sure pay of c beside the arm, which was tried as often as wins and losses say, one can win

        V_m = max( c m,  p (1 + V_{m-1}(one more win)) + (1 - p) V_{m-1}(one more loss) ),  p = (wins + 1) / (tries + 2)

    and the index is the highest c for which the second is not worse.
    """
    sure = (np.arange(GRID) + 0.5)[:, None, None] / GRID
    value: NDArray[np.float64] = np.zeros((GRID, pulls + 1, pulls + 1))
    indices = [np.zeros((pulls + 1, pulls + 1))]
    for left in range(1, pulls + 1):
        size = pulls - left + 1  # wins and losses before this pull: fewer than that
        wins, losses = np.arange(size)[:, None], np.arange(size)[None]
        chance = (wins + 1) / (wins + losses + 2)
        pulled = chance * (1 + value[:, 1 : size + 1, :size]) + (1 - chance) * value[:, :size, 1 : size + 1]
        indices.append((pulled >= sure * left).sum(0) / GRID)
        value = np.maximum(sure * left, pulled)
    return tuple(indices)


Player = Callable[[Seen], NDArray[np.int64]]
PLAYERS: dict[str, Player] = {
    "random": at_random,
    "ucb1": ucb1,
    "ucb1-tuned": ucb1_tuned,
    "thompson": thompson,
    "gittins": gittins,
}
