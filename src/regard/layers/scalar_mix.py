"""One vector from the layers of a deep network (Peters et al. 2018, equation 1).

ELMo_k = γ Σ_j s_j h_kj,   s = softmax(w)
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """Learns how much each layer is worth to a task, and how large the whole should be."""

    def __init__(self, count: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Float[Tensor, "count *batch size"]) -> Float[Tensor, "*batch size"]:
        return self.gamma * torch.einsum("c,c...->...", self.weights.softmax(0), layers)
