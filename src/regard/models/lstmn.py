"""The Long Short-Term Memory-Network of "Long Short-Term Memory-Networks for Machine Reading" (Cheng et al. 2016).

    x_t = E[token_t]
    h_t = LSTMN(x_1, ..., x_t)            an LSTM that attends to its own past: see regard.layers.intra_attention
    p(token_{t+1}) = softmax(E h_t)       one matrix E embeds the tokens and predicts them

A language model: `read` takes tokens and what was carried from the tokens before them, and gives one state per token
and what to carry on. `intra_attention=False` is the plain LSTM of equal width. The paper's deep variant is `layers`
above one another; its encoder-decoder is not here.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.intra_attention import Past, StackReader

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class Config:
    """The sizes of an LSTMN."""

    vocabulary: int
    size: int = 300  # of h, c and h~
    embedding_size: int = 300
    layers: int = 1
    dropout: float = 0.0  # on embeddings, between layers, on the last states
    span: int = 32  # how many steps back the attention reaches
    intra_attention: bool = True  # false: a plain LSTM
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=128, embedding_size=128, dropout=0.1),
    "small": dict(size=256, embedding_size=256, dropout=0.3),
    "paper": dict(size=300, embedding_size=300, layers=1, dropout=0.5, span=64),
    "deep": dict(size=300, embedding_size=300, layers=3, dropout=0.5, span=64),
}


class LSTMN(StackReader):
    """A recurrent language model that looks back at what it has read."""

    def __init__(self, config: Config):
        super().__init__(config)
        equal = config.size == config.embedding_size
        self.output = nn.Identity() if equal else nn.Linear(config.size, config.embedding_size, bias=False)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each token."""
        return self.logits(self.read(tokens)[0])

    def read(self, tokens: Tokens, carried: tuple[Past, ...] | None = None) -> tuple[States, tuple[Past, ...]]:
        """One state per token, to be compared with `output_weight`; and what the tokens that follow must know."""
        states, carried = self.states(tokens, carried)
        return self.output(self.dropout(states)), carried

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        """The rows that states are compared with to predict a token: the embeddings themselves."""
        return self.embedding.weight

    def logits(self, states: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch vocabulary"]:
        return F.linear(states, self.output_weight)


FAMILIES = {"lstmn": LSTMN}
