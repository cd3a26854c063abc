"""SNAIL as a policy: step by step and all at once."""

import pytest
import torch

from regard.errors import UsageError
from regard.models.snail_policy import Config, SnailPolicy


def build(pulls: int = 6) -> SnailPolicy:
    torch.manual_seed(0)
    model = SnailPolicy(Config(arms=3, pulls=pulls, embedding_size=5, blocks=("tc 4", "att 3 3", "tc 2")))
    torch.nn.init.normal_(model.policy.weight)
    return model


def test_playing_step_by_step_says_what_reading_the_game_says() -> None:
    model = build()
    draw = torch.Generator().manual_seed(1)
    arms, rewards = torch.randint(0, 3, (4, 6), generator=draw), torch.rand(4, 6, generator=draw)
    arms[:, 0], rewards[:, 0] = -1, 0.0
    logits, values = model(arms, rewards)
    assert (logits.shape, values.shape) == ((4, 6, 3), (4, 6))
    experience = model.start(4)
    for step in range(6):
        said, experience = model.step(arms[:, step], rewards[:, step], experience)
        torch.testing.assert_close(said, logits[:, step])


def test_what_happens_later_changes_nothing_before() -> None:
    model, arms, rewards = build(), torch.tensor([[-1, 0, 1, 2]]), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    logits, _ = model(arms, rewards)
    changed, _ = model(torch.tensor([[-1, 0, 1, 0]]), torch.tensor([[0.0, 1.0, 0.0, 0.0]]))
    assert torch.equal(logits[:, :3], changed[:, :3])
    assert not torch.equal(logits[:, 3], changed[:, 3])


def test_at_first_every_arm_is_about_as_likely() -> None:
    torch.manual_seed(0)
    logits, _ = SnailPolicy(Config())(torch.tensor([[-1]]), torch.tensor([[0.0]]))
    assert logits.softmax(-1).max().item() < 0.25


@pytest.mark.parametrize(("changes", "told"), [(dict(arms=1), "model.arms is 1"), (dict(pulls=0), "model.pulls is 0")])
def test_what_cannot_be_is_refused(changes: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Config(**changes)
