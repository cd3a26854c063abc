"""The Hierarchical Attention Network of "Hierarchical Attention Networks for Document Classification"
(Yang et al. 2016).

    word encoder        h_it = [GRU→(E w_it); GRU←(E w_it)]
    word attention      u_it = tanh(W_w h_it + b_w),   α_it = softmax_t(u_it · u_w),   s_i = Σ_t α_it h_it
    sentence encoder    h_i  = [GRU→(s_i); GRU←(s_i)]
    sentence attention  u_i  = tanh(W_s h_i + b_s),    α_i = softmax_i(u_i · u_s),     v = Σ_i α_i h_i
    output              p = softmax(W_c v + b_c)

The context vectors u_w and u_s are learnt queries: "what is the informative word?" The same two steps serve both
levels, so the network is one `Level` used twice. A document is a table of tokens [sentences, words]; padding words and
padding sentences may stand anywhere. With `pooling: average` or `max` in place of attention it is the paper's baseline.

The paper starts from word2vec embeddings; here they are learnt with everything else, with dropout against overfitting.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, masks
from regard.attention.scores import Dot
from regard.errors import UsageError
from regard.layers.dropout import Dropout
from regard.layers.recurrent import RecurrentEncoder

States = Float[Tensor, "rows length size"]
Mask = Bool[Tensor, "rows length"]
Vectors = Float[Tensor, "rows size"]

WORDS_AT_ONCE = 1 << 16  # padded words read together: bounds the memory of a long document, never changes a result


@dataclass(frozen=True)
class Config:
    """The sizes of a HAN."""

    vocabulary: int
    labels: int
    embedding_size: int = 200
    size: int = 50  # of each direction of both GRUs
    context_size: int = 100  # of u_it, u_i and the context vectors
    pooling: str = "attention"  # or average, max: how states become one vector
    dropout: float = 0.0  # on embeddings, sentence vectors and the document vector
    pad: int = 0  # the token that fills short sentences and short documents

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UsageError(f"there is no pooling called {self.pooling!r}: choose one of {', '.join(POOLINGS)}")


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(embedding_size=32, size=16, context_size=32),
    "small": dict(embedding_size=100, size=50, context_size=100, dropout=0.5),
    "base": dict(embedding_size=200, size=50, context_size=100),  # the paper's
}


class AttentionPooling(nn.Module):
    """The mean of the states, weighted by how well u_t = tanh(W h_t + b) matches a learnt context vector."""

    def __init__(self, size: int, context_size: int):
        super().__init__()
        self.hidden = nn.Linear(size, context_size)
        self.context = nn.Parameter(torch.randn(context_size) / context_size**0.5)
        self.attention = Attention(Dot(context_size, context_size))

    def forward(self, states: States, mask: Mask) -> Vectors:
        memory = self.attention.remember(torch.tanh(self.hidden(states)), mask, values=states)
        query = self.context.expand(len(states), 1, -1)
        return self.attention(query, memory).context.squeeze(1)


class AveragePooling(nn.Module):
    """The plain mean of the real states."""

    def __init__(self, size: int, context_size: int):
        super().__init__()

    def forward(self, states: States, mask: Mask) -> Vectors:
        count = mask.sum(1, keepdim=True).clamp(min=1)
        return states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1) / count


class MaxPooling(nn.Module):
    """Each feature where it is strongest among the real states."""

    def __init__(self, size: int, context_size: int):
        super().__init__()

    def forward(self, states: States, mask: Mask) -> Vectors:
        lowest = torch.finfo(states.dtype).min
        strongest = states.masked_fill(~mask.unsqueeze(-1), lowest).amax(1)
        return strongest.masked_fill(~mask.any(1, keepdim=True), 0.0)


POOLINGS: dict[str, type[nn.Module]] = {"attention": AttentionPooling, "average": AveragePooling, "max": MaxPooling}


class Level(nn.Module):
    """Rows of vectors, each read in both directions and gathered into one vector: words to sentences, or sentences
    to documents."""

    def __init__(self, input_size: int, config: Config):
        super().__init__()
        self.encoder = RecurrentEncoder("gru", input_size, config.size, 1, bidirectional=True)
        self.output_size = self.encoder.output_size
        self.pooling = POOLINGS[config.pooling](self.output_size, config.context_size)

    def forward(self, inputs: Float[Tensor, "rows length input_size"], mask: Mask) -> Vectors:
        states, _ = self.encoder(inputs, mask)
        return self.pooling(states, mask)


class HierarchicalAttention(nn.Module):
    """Documents [documents, sentences, words] to one row of logits each."""

    reads: ClassVar[str] = "documents"

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = Dropout(config.dropout)
        self.words = Level(config.embedding_size, config)
        self.sentences = Level(self.words.output_size, config)
        self.output = nn.Linear(self.sentences.output_size, config.labels)

    def forward(
        self, documents: Int[Tensor, "documents sentences words"]
    ) -> Float[Tensor, "documents {self.config.labels}"]:
        """Only sentences with a real word are read; a document without any gets the logits of a blank page."""
        real = masks.real_tokens(documents, self.config.pad)
        written = real.any(-1)
        read = written.clone()
        read[0, 0] |= ~written.any()  # the encoder wants one row, be it blank
        vectors = self.read_sentences(documents[read], real[read])
        table = vectors.new_zeros(*written.shape, vectors.shape[-1])
        table[read] = vectors
        return self.output(self.dropout(self.sentences(self.dropout(table), written)))

    def read_sentences(self, words: Int[Tensor, "rows words"], mask: Bool[Tensor, "rows words"]) -> Vectors:
        """A vector for each sentence, in their order; as many at once as memory should hold."""
        count, rows = len(words), max(1, WORDS_AT_ONCE // words.shape[1])
        if count <= rows:
            return self.words(self.dropout(self.embedding(words)), mask)
        # Blank sentences fill the last part up, so that a recording finds parts of one size.
        words, mask = (F.pad(table, (0, 0, 0, -count % rows)) for table in (words, mask))
        parts = zip(words.split(rows), mask.split(rows), strict=True)
        return torch.cat([self.read_sentences(*part) for part in parts])[:count]

    @staticmethod
    def attention_kind(name: str) -> str:
        """Which level the attention of this name weighs: `words` or `sentences`."""
        return name.split(".")[0]


FAMILIES = {"han": HierarchicalAttention}
