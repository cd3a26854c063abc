"""The LSTMN as a reader of whole texts (Cheng, Dong and Lapata 2016, sentiment analysis).

    h_1, ..., h_n = LSTMN(E[token_1], ..., E[token_n])      see regard.layers.intra_attention
    p(label) = softmax(W mean_t(h_t) + b)                   the mean of the hidden states over the real tokens

`intra_attention=False` is the plain LSTM of equal width.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import masks
from regard.layers.intra_attention import StackReader


@dataclass(frozen=True)
class Config:
    """The sizes of an LSTMN that classifies."""

    vocabulary: int
    labels: int  # to choose from
    size: int = 168  # of h, c and h~
    embedding_size: int = 300
    layers: int = 1
    dropout: float = 0.5  # on embeddings, between layers, on the mean
    span: int = 64  # how many steps back the attention reaches
    intra_attention: bool = True  # false: a plain LSTM
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=64, embedding_size=64, dropout=0.3, span=32),
    "paper": dict(size=168, embedding_size=300, layers=1),
    "deep": dict(size=168, embedding_size=300, layers=2),
}


class LSTMNClassifier(StackReader):
    """Labels a text by the mean of what it thought while reading it."""

    reads = "tokens"

    def __init__(self, config: Config):
        super().__init__(config)
        self.label = nn.Linear(config.size, config.labels)

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch labels"]:
        """Logits of the labels; a text without a real token has those of the bias alone."""
        states, _ = self.states(tokens)
        real = masks.real_tokens(tokens, self.config.pad)
        mean = states.sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        return self.label(self.dropout(mean))


FAMILIES = {"lstmn-classifier": LSTMNClassifier}
