"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho and Bengio 2015).

    encoder     h_j = [h->_j; h<-_j], a bidirectional GRU;   s_0 = tanh(W_s h<-_1)
    attention   e_ij = v . tanh(W s_{i-1} + U h_j),  alpha_i = softmax(e_i),  c_i = sum_j alpha_ij h_j
    decoder     s_i = GRU([E y_{i-1}; c_i], s_{i-1})
    output      t_i = maxout(U_o s_{i-1} + V_o E y_{i-1} + C_o c_i),   p(y_i) = softmax(W_o t_i)

The score and the readout see the state *before* the step, as in the paper's appendix. What can be is done in one
product for all steps: the readout after the loop, and before it the words' and the source's share of the GRU's gates
(a matrix times c_i is the alpha-weighted mean of the matrix times h_j, so the memory holds both).

Source and target share one embedding E, which is also W_o when `tied`. torch's GRU is used (see layers/recurrent.py).
W and U of the score start at N(0, 0.001^2) as in the paper: every word is looked at alike until there is a reason not
to. (The paper's v = 0 beside them would leave W and U without a gradient in the first step.)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Memory, masks
from regard.attention.scores import Additive
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Hidden, RecurrentDecoder, RecurrentEncoder, arrange, to_front
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]


@dataclass(frozen=True)
class Config:
    """The sizes of the translator."""

    vocabulary: int
    embedding_size: int = 620
    size: int = 1000  # of the decoder, and of each direction of the encoder
    alignment_size: int = 1000  # hidden units of the score
    readout_size: int = 500  # maxout units
    dropout: float = 0.0  # the paper has none; on the embeddings, the encoder's states and the readout
    tied: bool = False  # the output matrix is the embedding; needs readout_size = embedding_size
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(embedding_size=256, size=256, alignment_size=256, readout_size=256, dropout=0.3, tied=True),
    "paper": dict(embedding_size=620, size=1000, alignment_size=1000, readout_size=500),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step."""

    memory: Memory
    hidden: Hidden


class Bahdanau(SaysWords):
    """An encoder-decoder that searches the source at every step."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.words = Words(
            config.vocabulary, config.embedding_size, config.readout_size, tied=config.tied, dropout=config.dropout
        )
        self.encoder = RecurrentEncoder("gru", config.embedding_size, config.size, 1, bidirectional=True)
        read_size = self.encoder.output_size
        self.first_state = nn.Linear(config.size, config.size)  # W_s
        score = Additive(config.size, read_size, config.alignment_size)
        nn.init.normal_(score.query.weight, std=0.001)
        nn.init.normal_(score.key.weight, std=0.001)
        self.attention = Attention(score)
        self.decoder = RecurrentDecoder("gru", config.embedding_size, config.size, 1, fed_size=read_size)
        self.readout = nn.Linear(config.size + config.embedding_size + read_size, 2 * config.readout_size)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each target token."""
        return self.logits(self.decode(source, target))

    def decode(self, source: Source, target: Tokens) -> States:
        """Teacher-forced readouts: attention and GRU step by step, everything else in one product."""
        words, _, back = to_front(self.words(target), masks.real_tokens(target, self.config.pad))
        state = self.start(source)
        hidden, befores, contexts = state.hidden, [], []
        step = self.decoder.stepper()
        for projected in self.decoder.project(words).unbind(1):
            context, gates = self._read(hidden, state.memory)
            befores.append(hidden.top)
            contexts.append(context)
            hidden = step(projected + gates, hidden)
        said = self._say(torch.stack(befores, 1), words, torch.stack(contexts, 1))
        return arrange(said, back)

    def start(self, source: Source) -> State:
        """Read the source once; its projected keys serve every step."""
        mask = masks.real_tokens(source, self.config.pad)
        states, last = self.encoder(self.words(source), mask)
        first = torch.tanh(self.first_state(last.top[:, self.config.size :]))  # h<-_1
        states = self.dropout(states)
        values = torch.cat([states, self.decoder.project_fed(states)], dim=-1)
        return State(self.attention.remember(states, mask, values), Hidden((first,)))

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the token after `tokens`, and the state in which that token is known."""
        words, before = self.words(tokens), state.hidden.top
        context, gates = self._read(state.hidden, state.memory)
        hidden = self.decoder.stepper()(self.decoder.project(words) + gates, state.hidden)
        return self.logits(self._say(before, words, context)), State(state.memory, hidden)

    def _read(self, hidden: Hidden, memory: Memory) -> tuple[Vectors, Float[Tensor, "batch gates"]]:
        """c_i, and what it feeds into the GRU's gates."""
        read = self.attention(hidden.top.unsqueeze(1), memory).context.squeeze(1)
        context, gates = read.split([self.encoder.output_size, 3 * self.config.size], dim=-1)
        return context, gates

    def _say(self, before: Tensor, words: Tensor, context: Tensor) -> Tensor:
        """The maxout readout t_i."""
        hidden = self.readout(torch.cat([before, words, context], dim=-1))
        return self.dropout(hidden.unflatten(-1, (-1, 2)).amax(-1))

    @staticmethod
    def attention_kind(name: str) -> str:
        return "cross"

    @staticmethod
    def attention_layer(name: str) -> int:
        return 1


FAMILIES = {"bahdanau": Bahdanau}
