"""The recurrent encoder-decoder without attention (Cho et al. 2014; Sutskever, Vinyals and Le 2014).

    encoder     h_j = RNN(E x_j, h_{j-1}), stacked, one- or bidirectional;   c = its last states
    decoder     s_0 = tanh(W c),  s_i = RNN([E y_{i-1}; c], s_{i-1})
    output      p(y_i) = softmax(W_o tanh(W_t [s_i; E y_{i-1}; c]))

Whatever the sentence's length, the decoder knows it only through c, a vector of fixed size: the bottleneck that
attention was invented to remove. Cho et al. show c to every step and to the output (`context_everywhere`); Sutskever
et al. only start the decoder from it. The whole target is one fused recurrent call.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import masks
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bridge, Hidden, RecurrentDecoder, RecurrentEncoder, arrange, to_front
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
Inputs = Float[Tensor, "batch length embedding_size"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]


@dataclass(frozen=True)
class Config:
    """The sizes of the translator."""

    vocabulary: int
    embedding_size: int = 620
    size: int = 1000  # of the decoder, and of each direction of the encoder
    readout_size: int = 500
    layers: int = 1
    cell: str = "gru"  # or "lstm"
    bidirectional: bool = False
    reverse: bool = False  # read the source from its end
    context_everywhere: bool = True  # c at every step and in the output, not only at the start
    dropout: float = 0.0
    tied: bool = False  # the output matrix is the embedding; needs readout_size = embedding_size
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(embedding_size=256, size=256, readout_size=256, bidirectional=True, dropout=0.3, tied=True),
    "cho": dict(embedding_size=620, size=1000, readout_size=500),
    "sutskever": dict(
        embedding_size=1000,
        size=1000,
        readout_size=1000,
        layers=4,
        cell="lstm",
        reverse=True,
        context_everywhere=False,
    ),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step."""

    context: Vectors
    hidden: Hidden


class EncoderDecoder(SaysWords):
    """A sentence squeezed into one vector, and another one unfolded from it."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        size, layers, cell, dropout = config.size, config.layers, config.cell, config.dropout
        self.words = Words(
            config.vocabulary, config.embedding_size, config.readout_size, tied=config.tied, dropout=dropout
        )
        self.encoder = RecurrentEncoder(
            cell,
            config.embedding_size,
            size,
            layers,
            bidirectional=config.bidirectional,
            reverse=config.reverse,
            dropout=dropout,
        )
        self.bridge = Bridge(self.encoder.output_size, size, layers, cell)
        shown = self.encoder.output_size if config.context_everywhere else 0
        self.decoder = RecurrentDecoder(cell, config.embedding_size + shown, size, layers, dropout=dropout)
        self.readout = nn.Linear(size + config.embedding_size + shown, config.readout_size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each target token."""
        return self.logits(self.decode(source, target))

    def decode(self, source: Source, target: Tokens) -> States:
        """Teacher-forced readouts of every step."""
        words, mask, back = to_front(self.words(target), masks.real_tokens(target, self.config.pad))
        said, _ = self._unfold(words, self.start(source), mask)
        return arrange(said, back)

    def _unfold(
        self, words: Inputs, state: State, mask: Bool[Tensor, "batch length"] | None = None
    ) -> tuple[States, State]:
        inputs = words
        if self.config.context_everywhere:
            inputs = torch.cat([words, state.context.unsqueeze(1).expand(-1, words.shape[1], -1)], dim=-1)
        states, hidden = self.decoder(inputs, state.hidden, mask)
        said = torch.tanh(self.readout(torch.cat([states, inputs], dim=-1)))
        return self.dropout(said), State(state.context, hidden)

    def start(self, source: Source) -> State:
        """Read the source once; what the decoder will know of it is its last state."""
        mask = masks.real_tokens(source, self.config.pad)
        _, last = self.encoder(self.words(source), mask)
        return State(self.dropout(last.top), self.bridge(last))

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the token after `tokens`, and the state in which that token is known."""
        said, state = self._unfold(self.words(tokens).unsqueeze(1), state)
        return self.logits(said.squeeze(1)), state


FAMILIES = {"rnn": EncoderDecoder}
