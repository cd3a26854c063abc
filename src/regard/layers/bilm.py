"""The reader inside ELMo: characters to words, words to two stacks of LSTMs, one for each direction.

    x_k = CharCNN(word_k)
    h→_k,j = LSTM→_j(h→_1..k,j-1),   h←_k,j = LSTM←_j(h←_n..k,j-1),   h_k,0 = x_k        for layers j = 1, ..., L

The directions share the words and nothing else. From the second layer on a layer adds to what it reads (`residual`).
A reader has a state: read on with what was carried, and every row goes on where it stopped, the backward direction too,
as the published model does from batch to batch.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.char_cnn import CharCNN
from regard.layers.dropout import Dropout
from regard.layers.projected_lstm import Carried, ProjectedLSTM, Rows

Chars = Int[Tensor, "batch length characters"]
Layers = Float[Tensor, "layers batch length both"]


@dataclass(frozen=True, kw_only=True)
class ReaderSizes:
    """The sizes of a reader; these are the published ones."""

    size: int = 512  # of a word, and of the states of each direction
    cell_size: int = 4096
    layers: int = 2
    char_size: int = 16
    filters: tuple[int, ...] = (32, 32, 64, 128, 256, 512, 1024)  # how many of width 1, 2, 3, ...
    max_chars: int = 50  # of a word
    highways: int = 2
    activation: str = "relu"  # of the filters; or tanh
    residual: bool = True
    cell_clip: float | None = 3.0  # null for no clipping
    projection_clip: float | None = 3.0
    dropout: float = 0.1  # on what each layer reads, and on the last states

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("cell_size", 1), ("char_size", 1), ("layers", 0), ("highways", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"model.{name} is {getattr(self, name)} but must be at least {least}")
            if getattr(self, name) > 100 and least == 0:
                raise UsageError(f"model.{name} is {getattr(self, name)} but must be at most 100")
        if self.max_chars < max(3, len(self.filters)):
            raise UsageError(f"model.max_chars is {self.max_chars}: too few for filters of width {len(self.filters)}")


class BidirectionalReader(nn.Module):
    """Every layer's states of every word, both directions side by side."""

    def __init__(self, sizes: ReaderSizes):
        super().__init__()
        self.words = CharCNN(sizes.char_size, sizes.filters, sizes.highways, sizes.size, sizes.activation)
        self.layers = nn.ModuleList(
            ProjectedLSTM(sizes.size, sizes.size, sizes.cell_size, sizes.cell_clip, sizes.projection_clip)
            for _ in range(sizes.layers)
        )
        self.residual = sizes.residual
        self.dropout = Dropout(sizes.dropout)

    def forward(self, chars: Chars, carried: tuple[Carried, ...] | None = None) -> tuple[Layers, tuple[Carried, ...]]:
        """Layers [1 + layers, batch, length, 2 size], zero at padding, the words (twice) first; and what to carry on.

        Padding is where the first character is 0; it may be anywhere.
        """
        rows = Rows(chars[:, :, 0] != 0)
        states = rows.by_direction(self.words(rows.real_ones(chars)))
        layers, after = [rows.in_place(rows.together(states))], []
        for number, layer in enumerate(self.layers):
            read, last = layer(self.dropout(states), rows, carried[number] if carried else None)
            states = states + read if number and self.residual else read
            layers.append(rows.in_place(rows.together(states)))
            after.append(last)
        return torch.stack(layers), tuple(after)
