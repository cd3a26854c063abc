"""Effective approaches to attention-based neural machine translation (Luong, Pham and Manning 2015).

    decoder     h_t = LSTM(E y_{t-1}, h_{t-1}), stacked; with input feeding LSTM([E y_{t-1}; h~_{t-1}], h_{t-1})
    attention   a_t = align(score(h_t, h_s)),  c_t = sum_s a_t(s) h_s
    output      h~_t = tanh(W_c [c_t; h_t]),   p(y_t) = softmax(W_s h~_t)

Any score (dot, scaled_dot, general, additive = concat, cosine, location) goes with any alignment (soft = the paper's
global, hard, local_m, local_p). Without input feeding the whole target is one fused recurrent call and one attention
call; with it, the decoder and the attention run step by step. The encoder reads the source backwards when `reverse`,
in both directions when `bidirectional`; each of its states stays at the place of its word, so windows and pictures
are in the order of the sentence either way.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Memory, masks, named_attention
from regard.attention.unpadded import on_real_tokens
from regard.layers.dropout import Dropout
from regard.layers.recurrent import (
    Bridge,
    Hidden,
    RecurrentDecoder,
    RecurrentEncoder,
    Stepper,
    arrange,
    to_front,
)
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
Inputs = Float[Tensor, "batch length embedding_size"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]


@dataclass(frozen=True)
class Config:
    """The sizes of the translator, its score and its alignment."""

    vocabulary: int
    embedding_size: int = 1000
    size: int = 1000  # of the decoder's states, of h~, and of the encoder's states (half of it per direction)
    layers: int = 4
    cell: str = "lstm"  # or "gru"
    score: str = "general"  # dot, scaled_dot, general, additive, cosine or location
    align: str = "soft"  # soft, hard, local_m or local_p
    reach: int = 10  # D: local alignments look so many words to either side
    max_source: int = 512  # places the location score knows
    expected: float = 0.0  # hard alignment: how often, in training, the expected context is read instead of a draw
    reward_weight: float = 1.0  # hard alignment: how much the reward of a draw counts beside the words' likelihood
    feeding: bool = True  # input feeding
    reverse: bool = False  # read the source from its end
    bidirectional: bool = False
    dropout: float = 0.2
    tied: bool = False  # the output matrix is the embedding; needs size = embedding_size
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(
        embedding_size=256, size=256, layers=1, cell="gru", bidirectional=True, feeding=False, dropout=0.3, tied=True
    ),
    "paper": dict(embedding_size=1000, size=1000, layers=4, reverse=True),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step."""

    memory: Memory
    hidden: Hidden
    fed: Vectors  # h~ of the step before
    place: Int[Tensor, "batch"]  # of the next token


class Luong(SaysWords):
    """A stacked encoder-decoder with one attention on top."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        size, layers, cell, dropout = config.size, config.layers, config.cell, config.dropout
        self.words = Words(config.vocabulary, config.embedding_size, size, tied=config.tied, dropout=dropout)
        self.encoder = RecurrentEncoder(
            cell,
            config.embedding_size,
            size // 2 if config.bidirectional else size,
            layers,
            bidirectional=config.bidirectional,
            reverse=config.reverse,
            dropout=dropout,
        )
        self.bridge = Bridge(self.encoder.output_size, size, layers, cell)
        self.decoder = RecurrentDecoder(
            cell, config.embedding_size, size, layers, fed_size=size if config.feeding else 0, dropout=dropout
        )
        self.attention = named_attention(
            config.score,
            config.align,
            size,
            self.encoder.output_size,
            reach=config.reach,
            max_keys=config.max_source,
            expected=config.expected,
            reward_weight=config.reward_weight,
        )
        self.combine = nn.Linear(self.encoder.output_size + size, size, bias=False)  # W_c
        self.dropout = Dropout(dropout)

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each target token."""
        return self.logits(self.decode(source, target))

    def decode(self, source: Source, target: Tokens) -> States:
        """Teacher-forced h~ of every step."""
        known = masks.real_tokens(target, self.config.pad)
        words, mask, back = to_front(self.words(target, known), known)
        state = self.start(source)
        if self.config.feeding:
            said = self._decode_feeding(words, state)
        else:
            hidden, _ = self.decoder(words, state.hidden, mask)
            said = self._look(hidden, state.memory, mask=mask)
        return arrange(said, back)

    def _decode_feeding(self, words: Inputs, state: State) -> States:
        said, step = [], self.decoder.stepper()
        for projected in self.decoder.project(words).unbind(1):
            state = self._advance(projected, state, step)
            said.append(state.fed)
        return torch.stack(said, dim=1)

    def _advance(self, projected: Float[Tensor, "batch gates"], state: State, step: Stepper) -> State:
        """One step with input feeding."""
        hidden = step(projected, state.hidden, state.fed)
        said = self._look(hidden.top.unsqueeze(1), state.memory, state.place.unsqueeze(1)).squeeze(1)
        return State(state.memory, hidden, said, state.place + 1)

    def _look(
        self,
        hidden: States,
        memory: Memory,
        places: Int[Tensor, "batch length"] | None = None,
        mask: Bool[Tensor, "batch length"] | None = None,
    ) -> States:
        """h~ = tanh(W_c [c; h]); nothing is wanted of what `mask` hides."""
        context = self.attention(hidden, memory, places).context
        return on_real_tokens(self._say, mask, context, hidden)

    def _say(self, context: Float[Tensor, "batch length read_size"], hidden: States) -> States:
        return self.dropout(torch.tanh(self.combine(torch.cat([context, hidden], dim=-1))))

    def start(self, source: Source) -> State:
        """Read the source once; its projected keys serve every step."""
        mask = masks.real_tokens(source, self.config.pad)
        states, last = self.encoder(self.words(source, mask), mask)
        memory = self.attention.remember(on_real_tokens(self.dropout, mask, states), mask)
        hidden = self.bridge(last)
        return State(memory, hidden, torch.zeros_like(hidden.top), source.new_zeros(len(source)))

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the token after `tokens`, and the state in which that token is known."""
        words = self.words(tokens)
        if self.config.feeding:
            state = self._advance(self.decoder.project(words), state, self.decoder.stepper())
            return self.logits(state.fed), state
        states, hidden = self.decoder(words.unsqueeze(1), state.hidden)
        said = self._look(states, state.memory, state.place.unsqueeze(1)).squeeze(1)
        return self.logits(said), State(state.memory, hidden, said, state.place + 1)

    @staticmethod
    def attention_kind(name: str) -> str:
        return "cross"

    @staticmethod
    def attention_layer(name: str) -> int:
        return 1


FAMILIES = {"luong": Luong}
