"""Words from their characters by convolution (Kim et al. 2016), as ELMo reads them.

    y_f = activation(max_p (w_f * e)_p + b_f)           for each filter f over the embedded characters e
    t = σ(W_t y + b_t),   y ← t ⊙ relu(W y + b) + (1 - t) ⊙ y       highway layers (Srivastava et al. 2015)
    x = W_x y + b_x

A word is a fixed number of characters, filled up with one that is a character like others (see
regard.data.characters). Each distinct word of a call is read once, and of what fills it up only as much as can matter.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UsageError

CHARACTERS = 262
FILL = 261  # fills a word up
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """A layer that lets through what it does not change."""

    def __init__(self, size: int):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, -2.0)  # at first nearly everything passes

    def forward(self, states: Float[Tensor, "words size"]) -> Float[Tensor, "words size"]:
        return torch.lerp(states, torch.relu(self.transform(states)), torch.sigmoid(self.gate(states)))


class CharCNN(nn.Module):
    """`filters` says how many there are of width 1, 2, 3, ..."""

    def __init__(
        self, char_size: int, filters: Sequence[int], highways: int, output_size: int, activation: str = "relu"
    ):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UsageError(f"model.activation is {activation!r} but must be one of {', '.join(ACTIVATIONS)}")
        if not any(filters) or min(filters) < 0:
            raise UsageError(f"model.filters is {list(filters)} but must say how many there are of width 1, 2, ...")
        self.activation = ACTIVATIONS[activation]
        self.embedding = nn.Embedding(CHARACTERS, char_size)
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        self.filters = nn.ModuleList(
            nn.Conv1d(char_size, count, width) for width, count in enumerate(filters, 1) if count
        )
        self.highways = nn.ModuleList(Highway(sum(filters)) for _ in range(highways))
        self.output = nn.Linear(sum(filters), output_size)
        self.widest = len(filters)

    def forward(self, chars: Int[Tensor, "words characters"]) -> Float[Tensor, "words output_size"]:
        if len(chars) == 0:
            return self.output.weight.new_zeros(0, self.output.out_features)
        distinct, back = chars.unique(dim=0, return_inverse=True)
        return self._read(distinct)[back]

    def _read(self, chars: Tensor) -> Tensor:
        # One window that holds nothing but filling stands for all of them, as only the largest answer counts.
        used = int((chars != FILL).sum(1).max())
        embedded = self.embedding(chars[:, : used + self.widest]).mT
        found = torch.cat([convolution(embedded).amax(-1) for convolution in self.filters], dim=1)
        states = self.activation(found)
        for highway in self.highways:
            states = highway(states)
        return self.output(states)
