"""How hard attention learns: REINFORCE (Williams 1992) as in Xu et al. 2015.

A draw has no gradient, so its *probability* is raised when what followed went better than usual:

    loss = - reward_weight * sum_t (R_t - b) log p(draw_t)  -  entropy_weight * sum_t H_t

R_t is the log-likelihood of what the draw led to, b a moving average of it, H_t the entropy of the choice, which keeps
the choice open until there is a reason to close it. At weight 1 the first term is the gradient of the expected reward,
exact on average but noisy: words differ in likelihood far more than draws do. Beside the gradient of the words that
were read, which teaches everything else, a smaller weight may learn faster (the paper's lambda_r, to be validated).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments import Aligned, Hard

Rows = Float[Tensor, "batch queries"]
ENTROPY_WEIGHT = 0.002
BASELINE_DECAY = 0.9


class Draws:
    """What the hard alignments of a model drew during a forward pass, in the order of the calls."""

    def __init__(self, modules: list[Hard]) -> None:
        self.modules = modules
        self._log_probabilities: list[Rows] = []
        self._entropies: list[Rows] = []

    def add(self, module: nn.Module, inputs: Any, aligned: Aligned) -> None:
        assert aligned.log_probability is not None
        assert aligned.entropy is not None
        self._log_probabilities.append(aligned.log_probability)
        self._entropies.append(aligned.entropy)

    def loss(self, rewards: Rows, real: Bool[Tensor, "batch queries"]) -> Float[Tensor, ""]:
        """Summed over the real queries. While training, the baseline moves towards these rewards."""
        order = (~real).long().argsort(dim=1, stable=True)  # draws are made in reading order, wherever the padding is
        rewards, real = rewards.gather(1, order), real.gather(1, order)
        log_probability = torch.cat(self._log_probabilities, dim=-1)[real]
        entropy, rewards = torch.cat(self._entropies, dim=-1)[real], rewards[real]
        advantage = rewards - self.modules[0].baseline
        for module in self.modules:
            if module.training and len(rewards):
                module.baseline.lerp_(rewards.mean(), 1 - BASELINE_DECAY)
        reinforced = self.modules[0].reward_weight * (advantage * log_probability).sum()
        return -reinforced - ENTROPY_WEIGHT * entropy.sum()


@contextmanager
def watch_draws(model: nn.Module) -> Iterator[Draws | None]:
    """The draws made inside the block; None for a model that draws nothing."""
    modules = [module for module in model.modules() if isinstance(module, Hard)]
    draws = Draws(modules) if modules else None
    handles = [module.register_forward_hook(draws.add) for module in modules] if draws else []
    try:
        yield draws
    finally:
        for handle in handles:
            handle.remove()
