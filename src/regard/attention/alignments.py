"""How do scores become weights? Four alignments, one class each.

    soft      softmax over every key that may be attended to
    hard      one key: sampled while training (with its log-probability, for REINFORCE), the best in evaluation;
              see drawing.py for how it learns
    local_m   softmax over the keys within D of the query's own place (Luong et al. 2015, monotonic)
    local_p   softmax over the keys within D of a predicted place p, times exp(-(s - p)^2 / 2 sigma^2) with
              sigma = D / 2: the Gaussian multiplies after the softmax and nothing is renormalised

Places are counted among the real keys. A query that may attend to nothing gets weights of zero.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import masks
from regard.attention.memory import Memory
from regard.errors import RegardError

Scores = Float[Tensor, "*batch queries keys"]
Allowed = Bool[Tensor, "..."] | None


@dataclass(frozen=True)
class Aligned:
    """Weights and, when keys were drawn by chance, how likely the draws were and how open the choice was."""

    weights: Float[Tensor, "*batch queries keys"]
    log_probability: Float[Tensor, "*batch queries"] | None = None
    entropy: Float[Tensor, "*batch queries"] | None = None


@dataclass(frozen=True)
class Queries:
    """The asking side, for alignments that need more than scores: the vectors and their places in time."""

    vectors: Float[Tensor, "*batch queries size"]
    places: Int[Tensor, "..."]  # [queries] or [*batch, queries]


def masked_softmax(scores: Scores, allowed: Allowed = None) -> Scores:
    """Softmax over the allowed keys. A row without any is zero, in value and in gradient."""
    if allowed is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


class Alignment(nn.Module):
    """Turns scores into weights; `allowed` broadcasts to the scores (None: everything)."""

    is_fused: ClassVar[bool] = False  # whether torch's fused kernel computes exactly this

    def __init__(self, query_size: int | None = None):
        super().__init__()

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        raise NotImplementedError


class Soft(Alignment):
    is_fused = True

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        return Aligned(masked_softmax(scores, allowed))


class Hard(Alignment):
    """One key per query. With `expected` > 0 that share of the training queries read the expectation instead, which
    makes the first steps of learning easier (Xu et al. 2015 use one half). `reward_weight` is what the reward of a draw
    counts beside the likelihood of the words: see regard.attention.drawing."""

    baseline: Tensor

    def __init__(self, query_size: int | None = None, expected: float = 0.0, reward_weight: float = 1.0):
        super().__init__(query_size)
        if not 0 <= expected < 1:
            raise RegardError(f"a share of expected contexts must lie in [0, 1), not {expected}")
        self.expected, self.reward_weight = expected, reward_weight
        self.register_buffer("baseline", torch.zeros(()))  # of the reward; belongs to the run, so it is saved

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        probabilities = masked_softmax(scores, allowed)
        chosen = self._sample(probabilities) if self.training else probabilities.argmax(-1, keepdim=True)
        chance = probabilities.gather(-1, chosen)
        exists = chance > 0  # false only in rows that may attend to nothing
        weights = torch.zeros_like(probabilities).scatter(-1, chosen, exists.to(probabilities.dtype))
        log_probability = chance.masked_fill(~exists, 1.0).log()
        entropy = torch.special.entr(probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny)).sum(-1)
        if self.training and self.expected:
            soft = torch.rand_like(chance) < self.expected
            weights = torch.where(soft, probabilities, weights)
            log_probability = log_probability.masked_fill(soft, 0.0)  # nothing was drawn
        return Aligned(weights, log_probability.squeeze(-1), entropy)

    @staticmethod
    def _sample(probabilities: Scores) -> Int[Tensor, "*batch queries 1"]:
        # The exponential race: argmax of p / Exp(1) is a draw from p, and never one of probability zero
        # unless all are.
        race = torch.empty_like(probabilities).exponential_()
        return (probabilities.detach() / race).argmax(-1, keepdim=True)


class Local(Alignment):
    """Base of the alignments that look only `reach` (the paper's D) keys to either side of a centre."""

    def __init__(self, query_size: int | None = None, reach: int = 10):
        super().__init__(query_size)
        if reach < 1:
            raise RegardError(f"a local alignment must reach at least 1 key to either side, not {reach}")
        self.reach = reach

    def extra_repr(self) -> str:
        return f"reach={self.reach}"


class LocalMonotonic(Local):
    """Luong's local-m: the alignment runs along the diagonal, p_t = t, clamped to the last key."""

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        last = (memory.lengths() - 1).clamp(min=0)
        centre = torch.minimum(queries.places, last.unsqueeze(-1))
        distance = memory.positions().unsqueeze(-2) - centre.unsqueeze(-1)
        return Aligned(masked_softmax(scores, masks.combine(allowed, distance.abs() <= self.reach)))


class LocalPredictive(Local):
    """Luong's local-p: p_t = n sigmoid(v . tanh(W q)), n the number of real keys."""

    def __init__(self, query_size: int | None = None, reach: int = 10):
        super().__init__(query_size, reach)
        if query_size is None:
            raise RegardError("local_p predicts a place from the query: give it the query_size")
        self.hidden = nn.Linear(query_size, query_size, bias=False)  # W_p
        self.place = nn.Linear(query_size, 1, bias=False)  # v_p

    def predict(self, vectors: Tensor, memory: Memory) -> Float[Tensor, "*batch queries 1"]:
        fraction = torch.sigmoid(self.place(torch.tanh(self.hidden(vectors))))
        return memory.lengths()[..., None, None] * fraction

    def forward(self, scores: Scores, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        distance = memory.positions().unsqueeze(-2) - self.predict(queries.vectors, memory)
        weights = masked_softmax(scores, masks.combine(allowed, distance.abs() <= self.reach))
        sigma = self.reach / 2
        return Aligned(weights * torch.exp(-(distance**2) / (2 * sigma**2)))


ALIGNMENTS: dict[str, type[Alignment]] = {
    "soft": Soft,
    "hard": Hard,
    "local_m": LocalMonotonic,
    "local_p": LocalPredictive,
}
