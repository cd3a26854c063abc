"""Playing bandits: others' rules as they are written, and a policy that learns from its pay."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.bandits import Bandits, draw_bandits, held_out
from regard.data.batching import Place
from regard.errors import RegardError, UsageError
from regard.models.snail_policy import Config, SnailPolicy
from regard.recipes import load_recipe, runner
from regard.tasks.bandit import BanditData, BanditTask, Games, advantages_of, policy_loss, rollout, shortfalls
from regard.tasks.bandit_player import BanditPlayer
from regard.tasks.bandit_players import PLAYERS, Seen, gittins_indices, play, ucb1, ucb1_tuned
from regard.training.settings import Training

CPU = torch.device("cpu")
TINY = [
    "data.arms=2",
    "data.pulls=4",
    "model.embedding_size=6",
    "model.blocks=[tc 4, att 4 4]",
    "training.steps=4",
    "training.batch_tokens=64",
    "training.validate_every=2",
    "training.log_every=1",
    "training.device=cpu",
]


def policy(arms: int = 2, pulls: int = 5, **sizes: Any) -> SnailPolicy:
    torch.manual_seed(0)
    return SnailPolicy(Config(arms, pulls, **{"embedding_size": 8, "blocks": ("tc 8", "att 8 8"), **sizes}))


def seen(tries: list[float], wins: list[float]) -> Seen:
    return Seen(np.array([tries]), np.array([wins]), 5, np.random.default_rng(0))


# Others' rules


def test_ucb1_takes_the_highest_bound_and_tries_every_arm_first() -> None:
    assert ucb1(seen([3, 0, 2], [3, 0, 1])).tolist() == [1]
    tries, wins = [6.0, 2.0, 4.0], [5.0, 1.0, 2.0]
    bounds = [w / n + math.sqrt(2 * math.log(12) / n) for n, w in zip(tries, wins, strict=True)]
    assert ucb1(seen(tries, wins)).tolist() == [int(np.argmax(bounds))]


def test_ucb1_tuned_knows_the_spread_of_an_arm() -> None:
    tries, wins = [20.0, 20.0, 3.0], [15.0, 10.0, 1.0]

    def bound(n: float, w: float) -> float:
        mean, log = w / n, math.log(43)
        return mean + math.sqrt(log / n * min(0.25, mean * (1 - mean) + math.sqrt(2 * log / n)))

    assert ucb1_tuned(seen(tries, wins)).tolist() == [int(np.argmax(list(map(bound, tries, wins))))]


def test_the_index_of_the_last_pull_is_the_mean_and_more_pulls_make_the_unknown_worth_more() -> None:
    indices = gittins_indices(12)
    for wins in range(5):
        for losses in range(5):
            assert indices[1][wins, losses] == pytest.approx((wins + 1) / (wins + losses + 2), abs=0.01)
    unknown = [indices[left][0, 0] for left in (1, 2, 5, 12)]
    assert unknown == sorted(unknown)
    # Two pulls left: pull on after a win only if the sure pay is below 2/3, so c 2 = 1/2 + 1/2 2/3 + 1/2 c.
    assert indices[2][0, 0] == pytest.approx(5 / 9, abs=0.01)


def test_better_rules_win_more_and_gittins_wins_most() -> None:
    bandits = held_out("test", 1000, 5, 20)
    won = {name: play(player, bandits).totals.mean() for name, player in PLAYERS.items()}
    assert won["random"] == pytest.approx(10, abs=0.5)
    assert won["random"] + 1 < won["ucb1"] < won["thompson"] < won["gittins"]
    assert (play(PLAYERS["thompson"], bandits, 1).arms == play(PLAYERS["thompson"], bandits, 1).arms).all()


# Learning


def test_advantages_are_the_sums_they_are_said_to_be() -> None:
    draw = torch.Generator().manual_seed(0)
    costs, values = torch.randn(2, 3, 4, generator=draw)
    found = advantages_of(costs, values, 0.7)
    after = torch.cat([values, torch.zeros(3, 1)], 1)
    for t in range(4):
        spelt = sum(0.7 ** (s - t) * (costs[:, s] + after[:, s + 1] - values[:, s]) for s in range(t, 4))
        torch.testing.assert_close(found[:, t], spelt)


def test_what_is_known_at_a_pull_is_the_pull_before() -> None:
    arms, rewards = Games(torch.tensor([[2, 0, 1]]), torch.tensor([[1.0, 0.0, 1.0]])).before()
    assert arms.tolist() == [[-1, 2, 0]]
    assert rewards.tolist() == [[0.0, 1.0, 0.0]]


def test_a_rollout_pays_what_the_bandit_pays() -> None:
    bandits = draw_bandits((3, 0), 6, 2, 5)
    with torch.no_grad():
        games = rollout(policy(), bandits, CPU)
    paid = np.take_along_axis(bandits.paid, games.arms.numpy()[..., None], 2)[..., 0]
    assert (games.rewards.numpy() == paid).all()
    assert (shortfalls(bandits, games) <= 0).all()


def test_arms_are_drawn_as_often_as_the_policy_says() -> None:
    model = policy()
    with torch.no_grad():
        model.policy.bias.copy_(torch.tensor([0.0, math.log(3)]))
        bandits = Bandits(np.zeros((4000, 2), np.float32), np.ones((4000, 1, 2), np.float32))
        luck = torch.from_numpy(np.random.default_rng(0).exponential(size=(4000, 1, 2)).astype(np.float32))
        share = rollout(model, bandits, CPU, luck).arms.float().mean().item()
    assert share == pytest.approx(0.75, abs=0.03)


def test_the_gradient_is_that_of_the_expected_pay() -> None:
    """One pull, no value, no entropy: the estimate over many games agrees with the exact gradient."""
    model = policy(pulls=1)
    rows, chances = 20000, torch.tensor([0.2, 0.9])
    bandits = Bandits(np.tile(chances.numpy(), (rows, 1)), np.ones((rows, 1, 2), np.float32))
    luck = torch.from_numpy(np.random.default_rng(1).exponential(size=(rows, 1, 2)).astype(np.float32))
    with torch.no_grad():
        games = rollout(model, bandits, CPU, luck)
    costs = shortfalls(bandits, games)
    deviation = (costs - costs.mean(0)).std(correction=0)
    loss = policy_loss(model, games, costs, BanditData(2, 1, value_weight=0.0, entropy=0.0)) / rows * deviation
    (estimate,) = torch.autograd.grad(loss, [model.policy.bias])
    logits, _ = model(torch.tensor([[-1]]), torch.tensor([[0.0]]))
    (exact,) = torch.autograd.grad(-(logits.softmax(-1) * chances).sum(), [model.policy.bias])
    torch.testing.assert_close(estimate, exact, atol=0.01, rtol=0.05)


def test_a_policy_learns_which_of_two_arms_pays() -> None:
    model = policy(pulls=5, blocks=("tc 16",))
    task = BanditTask(BanditData(2, 5), Training(batch_tokens=5 * 128, seed=0), CPU)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    with torch.no_grad():
        before = task.validate(model)
    for (batch, _), _ in zip(task.batches(Place()), range(70), strict=False):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        (loss.total / loss.count).backward()
        optimizer.step()
    with torch.no_grad():
        after = task.validate(model)
    assert before["nll"] == pytest.approx(1 / 6, abs=0.02)  # half the mean difference of two chances
    assert after["nll"] < 0.75 * before["nll"]
    assert after["reward"] > before["reward"] + 0.1


# Runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "bandit"
    runner.train(load_recipe("bandit-snail", TINY), folder)
    return folder


def test_a_run_is_compared_with_all_others_on_the_same_arms(trained: Path) -> None:
    scores = runner.evaluate(trained)
    assert list(scores.players) == ["snail", *PLAYERS]
    assert scores.players["snail"].behind == 0.0
    won = scores.players["gittins"]
    assert scores.players["snail"].reward - won.reward == pytest.approx(won.behind)
    assert won.behind_interval[0] < won.behind < won.behind_interval[1]
    assert scores.told().count("\n") == 6
    assert scores.as_dict()["pulls"] == 4


def test_one_seed_gives_one_training(trained: Path, tmp_path: Path) -> None:
    runner.train(load_recipe("bandit-snail", TINY), tmp_path / "again")
    first, again = (
        regard.load(run / "checkpoints" / "last").model.state_dict() for run in (trained, tmp_path / "again")
    )
    for name, tensor in first.items():
        assert torch.equal(again[name], tensor), name


def test_a_saved_player_plays_the_same(trained: Path, tmp_path: Path) -> None:
    player = regard.load(trained)
    assert isinstance(player, BanditPlayer)
    player.save_pretrained(tmp_path / "saved")
    bandits = held_out("valid", 20, 2, 9)  # longer games than it was trained on are played too
    assert (regard.load(tmp_path / "saved").play(bandits).arms == player.play(bandits).arms).all()
    with pytest.raises(UsageError, match="bandits of 2 arms, not of 3"):
        player.play(held_out("valid", 2, 3, 4))
    (tmp_path / "saved" / "bandit.json").unlink()
    with pytest.raises(RegardError, match=r"bandit.json: no such file"):
        regard.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("data.arms=1", "data.arms is 1"),
        ("data.trace=2", "data.trace is 2.0"),
        ("data.entropy=-1", "data.entropy is -1.0"),
        ("model.blocks=[gru 3]", "write att KEYS VALUES"),
        ("model={preset: ntm:small}", "played by a snail-policy, not by a ntm"),
    ],
)
def test_wrong_keys_are_refused_and_leave_no_folder(tmp_path: Path, override: str, told: str) -> None:
    values = [value for value in TINY if not (value.startswith("model.") and override.startswith("model="))]
    with pytest.raises(UsageError, match=told):
        runner.train(load_recipe("bandit-snail", [*values, override]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
