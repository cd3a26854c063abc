"""SNAIL as a policy (Mishra et al. 2018, section 4.2): it learns how to learn which arm of a bandit pays.

    s_t     = W [one-hot(a_{t-1}); r_{t-1}; t / T]      what was pulled last, what it paid, how much time has passed
    h       = blocks(s_0, ..., s_t)                     TC(32), TC(32), Att(32, 32)
    pi_t    = softmax(W_pi h_t),   V_t = W_v h_t        the next arm, and what is still to be won

The weights stay as they are while it plays: everything it finds out about an arm is in the sequence of what it did and
what that brought. The time is our addition: how much to explore depends on how many pulls are left. A rollout goes
step by step over a growing `Experience`; learning reads the finished sequence at once. Both say the same.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import masks
from regard.errors import UsageError
from regard.layers.temporal import Experience, Temporal, block_sizes, padding_first

NOTHING = -1  # the arm pulled before the first step

Arms = Int[Tensor, "batch steps"]
Rewards = Float[Tensor, "batch steps"]
Logits = Float[Tensor, "batch steps arms"]


@dataclass(frozen=True)
class Config:
    """The sizes of a SNAIL that pulls arms."""

    arms: int = 5
    pulls: int = 20  # T, that the TC blocks are to cover
    embedding_size: int = 32
    blocks: tuple[str, ...] = ("tc 32", "tc 32", "att 32 32")

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 2 if field.name == "arms" else 1
            if isinstance(value, int) and value < least:
                raise UsageError(f"model.{field.name} is {value} but must be at least {least}")
        for block in self.blocks:
            block_sizes(block)


PRESETS: dict[str, dict[str, object]] = {
    "bandit": dict(),  # the paper's
    "small": dict(blocks=("tc 16", "att 16 16", "tc 16", "att 16 16")),
}


class SnailPolicy(nn.Module):
    """From what was done and what it brought to what to do next, at every step."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.arms + 2, config.embedding_size)
        self.temporal = Temporal(config.embedding_size, config.pulls, config.blocks)
        self.policy = nn.Linear(self.temporal.output_size, config.arms)
        self.value = nn.Linear(self.temporal.output_size, 1)
        nn.init.zeros_(self.policy.bias)
        nn.init.normal_(self.policy.weight, std=0.01)  # at first every arm is as good as any other

    def forward(
        self, arms: Arms, rewards: Rewards, mask: Bool[Tensor, "batch steps"] | None = None
    ) -> tuple[Logits, Rewards]:
        """Logits and values of every step; `arms` and `rewards` are of the pull before it (-1 and 0 at the first)."""
        if mask is None:
            return self._said(self.temporal(self._seen(arms, rewards, torch.arange(arms.shape[1], device=arms.device))))
        order = padding_first(mask)
        arms, rewards, real = (table.gather(1, order) for table in (arms, rewards, mask))
        seen = self._seen(arms, rewards, masks.positions(real)).masked_fill(~real[..., None], 0.0)
        logits, values = self._said(self.temporal(seen, real))
        back = order.argsort(dim=1)
        return logits.gather(1, back[..., None].expand_as(logits)), values.gather(1, back)

    def start(self, batch: int) -> Experience:
        """The experience of `batch` players who have not pulled yet."""
        return self.temporal.start(batch, self.policy.weight)

    def step(
        self, arms: Int[Tensor, "batch"], rewards: Float[Tensor, "batch"], experience: Experience
    ) -> tuple[Float[Tensor, "batch arms"], Experience]:
        """One more pull: the logits of the next arm, after `arms` brought `rewards`."""
        place = torch.tensor([experience.states.shape[1]], device=arms.device)
        experience = self.temporal.step(self._seen(arms[:, None], rewards[:, None], place), experience)
        return self.policy(experience.states[:, -1]), experience

    def _seen(self, arms: Arms, rewards: Rewards, places: Int[Tensor, "..."]) -> Float[Tensor, "batch steps size"]:
        pulled = F.one_hot(arms - NOTHING, self.config.arms + 1)[..., 1:].to(rewards.dtype)
        time = (places.to(rewards.dtype) / self.config.pulls).expand_as(rewards)
        return self.embedding(torch.cat([pulled, rewards[..., None], time[..., None]], dim=-1))

    def _said(self, states: Float[Tensor, "batch steps size"]) -> tuple[Logits, Rewards]:
        return self.policy(states), self.value(states).squeeze(-1)


FAMILIES = {"snail-policy": SnailPolicy}
