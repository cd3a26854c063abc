"""Show, Attend and Tell: neural image caption generation with visual attention (Xu et al. 2015).

    annotations  a_1 ... a_L = CNN(I), one per region;   h_0 = f_h(mean a), c_0 = f_c(mean a), f = tanh(W . + b)
    attention    e_ti = v . tanh(W h_{t-1} + U a_i),   alpha_t = align(e_t)                               (4, 5)
    context      z_t = beta_t sum_i alpha_ti a_i,   beta_t = sigmoid(w_beta . h_{t-1} + b_beta)           (13, 4.2.1)
    decoder      h_t = LSTM([E y_{t-1}; z_t], h_{t-1})                                                    (1-3)
    output       p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t + L_z z_t))                                    (7)

`align: soft` reads the expectation, `align: hard` one region drawn from alpha, and learns by REINFORCE (see
attention/drawing.py). Soft attention need not look anywhere in particular; the doubly stochastic penalty asks that
over a whole caption every region be looked at about once:

    lambda sum_i (1 - sum_t alpha_ti)^2                                                                   (14)

Keys are projected once per picture; the words' share of the LSTM's gates comes before the loop and the output after
it, each in one product. (Projecting the regions instead of z_t, which pays for short sentences, does not for 64
regions: their share of the gates would be written and differentiated at every step.) `tied` makes L_o the embedding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Memory, masks
from regard.attention.alignments import Alignment, Hard, Soft
from regard.attention.scores import Additive
from regard.errors import UsageError
from regard.layers.dropout import Dropout
from regard.layers.image_encoder import ImageEncoder, Images, Regions
from regard.layers.recurrent import Hidden, RecurrentDecoder, arrange, to_front
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]
Weights = Float[Tensor, "batch length regions"]


@dataclass(frozen=True)
class Config:
    """The sizes of the captioner, and how it aligns."""

    vocabulary: int
    backbone: str = "small_cnn"  # or timm:NAME
    image_size: int = 128  # pixels of each side
    embedding_size: int = 512
    size: int = 1000  # of the LSTM
    alignment_size: int = 512  # hidden units of the score
    align: str = "soft"  # or hard
    expected: float = 0.5  # hard: how often, in training, the expected context is read instead of a draw
    reward_weight: float = 1.0  # hard: how much the reward of a draw counts beside the words' likelihood
    doubly_stochastic: float = 1.0  # lambda of the penalty; 0 for none
    dropout: float = 0.5
    tied: bool = False  # the output matrix is the embedding
    pad: int = 0

    def __post_init__(self) -> None:
        if self.align not in ("soft", "hard"):
            raise UsageError(f"model.align is {self.align!r} but must be soft or hard")
        if self.doubly_stochastic < 0:
            raise UsageError(f"model.doubly_stochastic is {self.doubly_stochastic} but must not be negative")


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(embedding_size=256, size=256, alignment_size=128, dropout=0.4, tied=True),
    "paper": dict(embedding_size=512, size=1000, alignment_size=512),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step."""

    memory: Memory
    hidden: Hidden


class AttendTell(SaysWords):
    """An LSTM that looks at the picture before every word."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = ImageEncoder(config.backbone, config.image_size)
        regions, embedding = self.encoder.size, config.embedding_size
        self.words = Words(config.vocabulary, embedding, embedding, tied=config.tied, dropout=config.dropout)
        self.first_state, self.first_cell = nn.Linear(regions, config.size), nn.Linear(regions, config.size)
        hard = Hard(expected=config.expected, reward_weight=config.reward_weight)
        align: Alignment = hard if config.align == "hard" else Soft()
        self.attention = Attention(Additive(config.size, regions, config.alignment_size), align)
        self.gate = nn.Linear(config.size, 1)  # beta
        self.decoder = RecurrentDecoder("lstm", embedding, config.size, 1, fed_size=regions)
        self.say_state = nn.Linear(config.size, embedding)  # L_h
        self.say_context = nn.Linear(regions, embedding, bias=False)  # L_z
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Images, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the word after each target word."""
        return self.logits(self.decode(self.encoder(images), target))

    def decode(self, regions: Regions, target: Tokens) -> States:
        """Teacher-forced inputs of L_o."""
        return self.decode_weighing(regions, target)[0]

    def decode_weighing(self, regions: Regions, target: Tokens) -> tuple[States, Weights]:
        """The same, with the alpha of every word, zero at padding: only attention and LSTM go step by step."""
        words, mask, back = to_front(self.words(target), masks.real_tokens(target, self.config.pad))
        state = self.start(regions)
        hidden, tops, contexts, weights = state.hidden, [], [], []
        step = self.decoder.stepper()
        for projected in self.decoder.project(words).unbind(1):
            context, weight = self._read(hidden, state.memory)
            hidden = step(projected, hidden, context)
            tops.append(hidden.top)
            contexts.append(context)
            weights.append(weight)
        said = self._say(words, torch.stack(tops, 1), torch.stack(contexts, 1))
        paid = torch.stack(weights, 1) * mask.unsqueeze(-1)
        return arrange(said, back), arrange(paid, back)

    def penalty(self, weights: Weights) -> Float[Tensor, ""]:
        """Equation 14, summed over the captions."""
        return self.config.doubly_stochastic * (1 - weights.sum(1)).square().sum()

    def start(self, regions: Regions) -> State:
        """The regions' keys, projected once for all steps; the LSTM begins with what they have in common."""
        mean = regions.mean(1)
        hidden = Hidden((torch.tanh(self.first_state(mean)),), (torch.tanh(self.first_cell(mean)),))
        return State(self.attention.remember(regions), hidden)

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the word after `tokens`, and the state in which that word is known."""
        words = self.words(tokens)
        context, _ = self._read(state.hidden, state.memory)
        hidden = self.decoder.stepper()(self.decoder.project(words), state.hidden, context)
        return self.logits(self._say(words, hidden.top, context)), State(state.memory, hidden)

    def _read(self, hidden: Hidden, memory: Memory) -> tuple[Vectors, Float[Tensor, "batch regions"]]:
        """z_t and alpha_t."""
        attended = self.attention(hidden.top.unsqueeze(1), memory)
        gate = torch.sigmoid(self.gate(hidden.top))  # beta_t
        return gate * attended.context.squeeze(1), attended.weights.squeeze(1)

    def _say(self, words: Tensor, states: Tensor, contexts: Tensor) -> Tensor:
        """E y_{t-1} + L_h h_t + L_z z_t"""
        return self.dropout(words + self.say_state(self.dropout(states)) + self.say_context(contexts))

    @staticmethod
    def attention_kind(name: str) -> str:
        return "cross"

    @staticmethod
    def attention_layer(name: str) -> int:
        return 1


FAMILIES = {"attend-tell": AttendTell}
