"""The layer of the Long Short-Term Memory-Network (Cheng, Dong and Lapata 2016): an LSTM that attends to its past.

    a_i^t = v . tanh(W_h h_i + W_x x_t + W_h~ h~_{t-1}),    s^t = softmax(a^t),    i = t - span, ..., t - 1
    [h~_t; c~_t] = sum_i s_i^t [h_i; c_i]
    [i, f, o, c^] = [sigma, sigma, sigma, tanh] (W [h~_t; x_t] + b)
    c_t = f * c~_t + i * c^,    h_t = o * tanh(c_t)

The hidden tape h_1, h_2, ... and the cell tape c_1, c_2, ... are read under one attention. Before the first token both
are empty: h~ = c~ = 0. The tapes keep the last `span` steps and are carried from one call to the next, so a text of
any length can be read in pieces. `PlainLSTM` is the same layer without the attention: the baseline.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention import Additive, Attention, Memory, masks
from regard.errors import UsageError
from regard.layers.dropout import Dropout
from regard.layers.recurrent import arrange, to_front

Tokens = Int[Tensor, "batch length"]
Inputs = Float[Tensor, "batch length input_size"]
States = Float[Tensor, "batch length size"]
Mask = Bool[Tensor, "batch length"]
Vectors = Float[Tensor, "batch size"]


@dataclass(frozen=True)
class Tapes:
    """The past of one layer: keys W_h h_i and values [h_i; c_i], the newest last, and the last summary h~."""

    memory: Memory
    summary: Vectors


@dataclass(frozen=True)
class Hidden:
    """The past of a plain LSTM."""

    state: Vectors
    cell: Vectors


Past = Tapes | Hidden


class Prepared(Additive):
    """v . tanh(q + W_h h): the additive score of a query q = W_x x_t + W_h~ h~ that is projected already."""

    def __init__(self, size: int):
        super().__init__(size, size)
        self.query = nn.Identity()  # type: ignore[assignment]


class IntraAttention(nn.Module):
    """Reads a batch step by step; rows that are shorter than others have their padding at the end."""

    def __init__(self, input_size: int, size: int, span: int):
        super().__init__()
        self.size, self.span = size, span
        self.attention = Attention(Prepared(size))
        self.input = nn.Linear(input_size, 5 * size, bias=False)  # W_x, and W where it meets x
        self.summary = nn.Linear(size, 5 * size, bias=False)  # W_h~, and W where it meets h~
        self.bias = nn.Parameter(torch.zeros(4 * size))

    def forward(self, inputs: Inputs, mask: Mask | None = None, past: Past | None = None) -> tuple[States, Past]:
        """One state per token, and the tapes as they are after the last real token of each row."""
        known = self._empty(inputs) if past is None else cast(Tapes, past)
        parts = [self.size, 4 * self.size]
        asked, fed = self.input(inputs).split(parts, dim=-1)  # of all steps at once
        asked, fed = asked.unbind(1), (fed + self.bias).unbind(1)
        keys, values = list(known.memory.keys.unbind(1)), list(known.memory.values.unbind(1))
        older, summaries = len(keys), [known.summary]
        real = _real(known.memory, mask, inputs.shape[1])
        asks = self.summary(known.summary)[:, : self.size]
        for step in range(inputs.shape[1]):
            window = slice(max(0, older + step - self.span), older + step)
            memory = Memory(
                _tape(keys[window], known.memory.keys),
                _tape(values[window], known.memory.values),
                None if real is None else real[:, window],
            )
            read = self.attention((asked[step] + asks).unsqueeze(1), memory).context.squeeze(1)
            summary, cell_summary = read.chunk(2, dim=-1)
            asks, gates = self.summary(summary).split(parts, dim=-1)
            state, cell = _lstm_cell(fed[step] + gates, cell_summary)
            keys.append(self.attention.score.prepare_keys(state))
            values.append(torch.cat([state, cell], dim=-1))
            summaries.append(summary)
        states = torch.stack(values[older:], dim=1)[..., : self.size]
        if real is None:
            memory = Memory(torch.stack(keys[-self.span :], 1), torch.stack(values[-self.span :], 1))
            return states, Tapes(memory, summaries[-1])
        lengths = real[:, older:].sum(1, keepdim=True)
        newest = real.long().argsort(dim=1, stable=True)[:, -self.span :]  # padding takes no place on a tape
        return states, Tapes(
            Memory(
                arrange(torch.stack(keys, 1), newest), arrange(torch.stack(values, 1), newest), real.gather(1, newest)
            ),
            arrange(torch.stack(summaries, 1), lengths).squeeze(1),
        )

    def _empty(self, inputs: Inputs) -> Tapes:
        batch, size = len(inputs), self.size
        memory = Memory(inputs.new_zeros(batch, 0, size), inputs.new_zeros(batch, 0, 2 * size))
        return Tapes(memory, inputs.new_zeros(batch, size))


class PlainLSTM(nn.Module):
    """torch's LSTM behind the same signature: what the attention is measured against."""

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.rnn = nn.LSTM(input_size, size, batch_first=True)

    def forward(self, inputs: Inputs, mask: Mask | None = None, past: Past | None = None) -> tuple[States, Past]:
        nothing = inputs.new_zeros(len(inputs), self.rnn.hidden_size)
        known = Hidden(nothing, nothing) if past is None else cast(Hidden, past)
        before = known.state.unsqueeze(0).contiguous(), known.cell.unsqueeze(0).contiguous()
        if mask is None:
            states, (state, cell) = self.rnn(inputs, before)
            return states, Hidden(state[0], cell[0])
        lengths = mask.sum(1)
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        packed, (state, cell) = self.rnn(packed, before)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
        some = (lengths > 0).unsqueeze(1)  # torch reads at least one token of a row; one without any stays as it was
        return states, Hidden(state[0].where(some, known.state), cell[0].where(some, known.cell))


class RecurrentStack(nn.Module):
    """Layers one above the other, with dropout between them. Padding may stand anywhere: it is never read."""

    def __init__(
        self, input_size: int, size: int, layers: int, *, span: int, dropout: float = 0.0, intra_attention: bool = True
    ):
        super().__init__()
        for name, value in (("layers", layers), ("span", span), ("size", size)):
            if value < 1:
                raise UsageError(f"model.{name} is {value} but must be at least 1")
        sizes = [input_size] + [size] * (layers - 1)
        self.layers = nn.ModuleList(
            IntraAttention(below, size, span) if intra_attention else PlainLSTM(below, size) for below in sizes
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Inputs, mask: Mask | None = None, past: tuple[Past, ...] | None = None
    ) -> tuple[States, tuple[Past, ...]]:
        """One state per token, zero at padding, and what to carry to the tokens that follow."""
        states, front, back = (inputs, None, None) if mask is None else to_front(inputs, mask)
        carried = []
        for number, layer in enumerate(self.layers):
            states = states if number == 0 else self.dropout(states)
            before = None if past is None else past[number]
            states, after = layer(states, front, before)
            carried.append(after)
        if mask is not None:
            states = arrange(states, back).masked_fill(~mask.unsqueeze(-1), 0.0)
        return states, tuple(carried)


class StackReader(nn.Module):
    """Tokens, embedded and read by a stack: what every model around one has in common. `config` has its sizes."""

    def __init__(self, config: Any):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = Dropout(config.dropout)
        self.stack = RecurrentStack(
            config.embedding_size,
            config.size,
            config.layers,
            span=config.span,
            dropout=config.dropout,
            intra_attention=config.intra_attention,
        )

    def states(self, tokens: Tokens, carried: tuple[Past, ...] | None = None) -> tuple[States, tuple[Past, ...]]:
        """One state per token, zero at padding, and what to carry to the tokens that follow."""
        mask = masks.real_tokens(tokens, self.config.pad)
        return self.stack(self.dropout(self.embedding(tokens)), None if bool(mask.all()) else mask, carried)

    def over_tokens(
        self, weights: Float[Tensor, "batch heads tokens keys"]
    ) -> Float[Tensor, "batch heads tokens tokens"]:
        """Recorded weights by the token looked at."""
        return over_tokens(weights, self.config.span)

    @staticmethod
    def attention_kind(name: str) -> str:
        """Every attention looks at what its own sequence said before: `decoder`."""
        return "decoder"

    @staticmethod
    def attention_layer(name: str) -> int:
        """The layer an attention belongs to, counted from 1: `stack.layers.0.attention` is in layer 1."""
        return int(name.split(".")[2]) + 1


def over_tokens(
    weights: Float[Tensor, "batch heads tokens keys"], span: int
) -> Float[Tensor, "batch heads tokens tokens"]:
    """Recorded weights by the token looked at: row t of a recording holds the `span` tokens before token t."""
    tokens = weights.shape[-2]
    placed = weights.new_zeros(*weights.shape[:-1], tokens)
    for row in range(tokens):
        first = max(0, row - span)
        placed[..., row, first:row] = weights[..., row, : row - first]
    return placed


def _lstm_cell(gates: Float[Tensor, "batch gates"], cell: Vectors) -> tuple[Vectors, Vectors]:
    """h_t and c_t from the sum of the gates' inputs, in the order i, f, o, c^."""
    size = cell.shape[-1]
    opened, candidate = gates.split([3 * size, size], dim=-1)
    take, keep, show = opened.sigmoid().chunk(3, dim=-1)
    cell = keep * cell + take * candidate.tanh()
    return show * cell.tanh(), cell


def _tape(entries: list[Tensor], before: Float[Tensor, "batch entries size"]) -> Tensor:
    """The entries side by side: [batch, entries, size]. Copying them is cheaper than autograd through a buffer."""
    return torch.stack(entries, dim=1) if entries else before[:, :0]


def _real(memory: Memory, mask: Mask | None, length: int) -> Bool[Tensor, "batch entries"] | None:
    """Which entries of a tape are real, once those of `length` tokens have been added to it; None: all of them."""
    if memory.mask is None and mask is None:
        return None
    batch, device = len(memory.keys), memory.keys.device
    before = torch.ones(batch, len(memory), dtype=torch.bool, device=device) if memory.mask is None else memory.mask
    new = torch.ones(batch, length, dtype=torch.bool, device=device) if mask is None else mask
    return torch.cat([before, new], dim=1)
