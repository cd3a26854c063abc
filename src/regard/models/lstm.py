"""The plain LSTM over vectors (Hochreiter & Schmidhuber 1997): what the Neural Turing Machine is compared with.

    i, f, o = sigmoid(W [x_t; h_{t-1}] + b);   g = tanh(W_g [x_t; h_{t-1}] + b_g)
    c_t = f c_{t-1} + i g;                     h_t = o tanh(c_t)
    y_t = W_y h_t                              logits

Graves et al. 2014 stack three layers of 256. It has no memory outside its state, and no attention. An episode begins
with a state of zeros.
"""

from dataclasses import dataclass, fields

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.recurrent import RecurrentEncoder

Inputs = Float[Tensor, "batch steps input_size"]
Mask = Bool[Tensor, "batch steps"]
Logits = Float[Tensor, "batch steps output_size"]


@dataclass(frozen=True)
class Config:
    """The sizes of an LSTM."""

    input_size: int
    output_size: int
    size: int = 256
    layers: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise UsageError(f"model.{field.name} is {getattr(self, field.name)} but must be at least 1")


PRESETS: dict[str, dict[str, object]] = {
    "paper": dict(size=256, layers=3),
    "small": dict(size=128, layers=1),
}


class LongShortTermMemory(nn.Module):
    """Reads a sequence of vectors and says one vector of logits per step."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.recurrent = RecurrentEncoder("lstm", config.input_size, config.size, config.layers, bidirectional=False)
        self.output = nn.Linear(config.size, config.output_size)

    def forward(self, inputs: Inputs, mask: Mask | None = None) -> Logits:
        """`mask` says which steps are real."""
        states, _ = self.recurrent(inputs, mask)
        return self.output(states)


FAMILIES = {"lstm": LongShortTermMemory}
