"""A tagger of words: what a word is, how it is spelt, and where it stands (after Ling et al. 2015, Huang et al. 2015).

    x_k = [E[t_k]; CharCNN(t_k); ELMo_k]        the last only with a pretrained ELMo (Peters et al. 2018, section 3.2)
    h_k = [LSTM→(x_1..k); LSTM←(x_n..k)]
    p(tag_k) = softmax(W h_k + b)

ELMo_k is a learnt mix of the layers of a bidirectional language model, or one of them (`elmo_layer`). The language
model stays as it was trained, unless it is tuned. Sentences come between their marks, which are tagged too, with no
meaning.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.bilm import BidirectionalReader, ReaderSizes
from regard.layers.char_cnn import CharCNN
from regard.layers.dropout import Dropout
from regard.layers.projected_lstm import ProjectedLSTM, Rows
from regard.layers.scalar_mix import ScalarMix

Chars = Int[Tensor, "batch length characters"]


@dataclass(frozen=True)
class Config:
    """The sizes of a tagger, and of the ELMo inside it."""

    vocabulary: int
    tags: int  # to choose from
    embedding_size: int = 100
    char_size: int = 16
    filters: tuple[int, ...] = (16, 32, 48)  # how many of width 1, 2, 3, ... characters
    max_chars: int = 50  # of a word
    spelling_size: int = 64  # of what the characters say
    size: int = 128  # of the states, for each direction
    cell_size: int = 256
    layers: int = 1
    dropout: float = 0.5  # on what each layer reads, and on the last states
    elmo: dict[str, Any] = field(default_factory=dict)  # the sizes of its reader; empty for none
    elmo_layer: int | None = None  # null for a mix of all; 0 are the words by themselves
    tune: bool = False  # whether the language model learns on

    def __post_init__(self) -> None:
        for name in ("vocabulary", "tags", "embedding_size", "spelling_size", "size", "cell_size", "layers"):
            if getattr(self, name) < 1:
                raise UsageError(f"model.{name} is {getattr(self, name)} but must be at least 1")
        if self.max_chars < max(3, len(self.filters)):
            raise UsageError(f"model.max_chars is {self.max_chars}: too few for filters of width {len(self.filters)}")
        if self.elmo and self.elmo_layer is not None and not 0 <= self.elmo_layer <= self.elmo["layers"]:
            raise UsageError(f"model.elmo_layer is {self.elmo_layer} but must lie in 0 to {self.elmo['layers']}")

    def reader_sizes(self) -> ReaderSizes | None:
        """Of the ELMo inside, without the layers that nobody asks for."""
        if not self.elmo:
            return None
        layers = self.elmo["layers"] if self.elmo_layer is None else self.elmo_layer
        return ReaderSizes(**{**self.elmo, "filters": tuple(self.elmo["filters"]), "layers": layers})


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(embedding_size=32, filters=(8, 16, 16), spelling_size=24, size=32, cell_size=64, dropout=0.3),
    "small": dict(),
    "base": dict(embedding_size=200, filters=(32, 64, 96), spelling_size=128, size=256, cell_size=512),
}


class WordTagger(nn.Module):
    """Logits of the tags of every word. Padding is where the first character is 0."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.spelling = CharCNN(config.char_size, config.filters, 0, config.spelling_size)
        sizes, read = config.reader_sizes(), config.embedding_size + config.spelling_size
        self.elmo = None if sizes is None else BidirectionalReader(sizes)
        self.mix: ScalarMix | None = None
        if sizes is not None and self.elmo is not None:
            self.elmo.requires_grad_(config.tune)
            self.mix = ScalarMix(1 + sizes.layers) if config.elmo_layer is None else None
            read += 2 * sizes.size
        self.layers = nn.ModuleList(
            ProjectedLSTM(2 * config.size if number else read, config.size, config.cell_size)
            for number in range(config.layers)
        )
        self.tags = nn.Linear(2 * config.size, config.tags)
        self.dropout = Dropout(config.dropout)

    def forward(self, words: Int[Tensor, "batch length"], chars: Chars) -> Float[Tensor, "batch length tags"]:
        rows = Rows(chars[:, :, 0] != 0)
        parts = [self.embedding(rows.real_ones(words)), self.spelling(rows.real_ones(chars))]
        if self.elmo is not None:
            parts.append(rows.real_ones(self.contextual(chars)))
        tokens = torch.cat(parts, dim=-1)
        for layer in self.layers:
            states, _ = layer(rows.by_direction(self.dropout(tokens)), rows)
            tokens = rows.together(states)
        return self.tags(self.dropout(rows.in_place(tokens)))

    def contextual(self, chars: Chars) -> Float[Tensor, "batch length both"]:
        """The ELMo of every word: γ Σ_j s_j h_j, or the one h_j that was asked for."""
        if self.elmo is None:
            raise UsageError("this tagger was built without an ELMo")
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.config.tune):
            layers, _ = self.elmo(chars)
        return layers[-1] if self.mix is None else self.mix(layers)

    def train(self, mode: bool = True) -> "WordTagger":
        """A language model that does not learn does not drop anything either."""
        super().train(mode)
        if self.elmo is not None and not self.config.tune:
            self.elmo.eval()
        return self


FAMILIES = {"tagger": WordTagger}
