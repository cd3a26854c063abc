"""Recurrent networks over padded batches: one that reads, one that writes.

Padding may stand on either side. A reader moves the real tokens to the front, runs over them as packed sequences and
moves its states back, so neither direction ever sees a padding token. A writer runs over a whole target in one fused
call when all its inputs are known, or step by step when something of the step before is fed into the next.

The cells are torch's: its GRU applies the reset gate after the recurrent matrix, h' = z h + (1 - z) n (Cho et al. 2014
apply it before, and their z is our 1 - z).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import UsageError
from regard.layers import gru_step, packed_gru
from regard.layers.dropout import Dropout
from regard.layers.products import linear

Inputs = Float[Tensor, "batch length input_size"]
States = Float[Tensor, "batch length size"]
Vectors = Float[Tensor, "batch size"]
Mask = Bool[Tensor, "batch length"]
Order = Int[Tensor, "batch length"]


@dataclass(frozen=True)
class Hidden:
    """The state of a stack of recurrent layers: one tensor per layer; an LSTM has cells beside it."""

    states: tuple[Vectors, ...]
    cells: tuple[Vectors, ...] = ()

    @property
    def top(self) -> Vectors:
        return self.states[-1]

    def for_torch(self) -> Tensor | tuple[Tensor, Tensor]:
        """As torch's modules want it: [layers, batch, size]."""
        states = torch.stack(self.states)
        return (states, torch.stack(self.cells)) if self.cells else states

    @staticmethod
    def from_torch(hidden: Tensor | tuple[Tensor, Tensor]) -> "Hidden":
        if isinstance(hidden, tuple):
            return Hidden(tuple(hidden[0].unbind(0)), tuple(hidden[1].unbind(0)))
        return Hidden(tuple(hidden.unbind(0)))


CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


def recurrent_layers(
    cell: str, input_size: int, size: int, layers: int, *, bidirectional: bool = False, dropout: float = 0.0
) -> nn.GRU | nn.LSTM:
    """torch's layers, batch first, each recurrent matrix orthogonal and the LSTM's forget gates open at the start."""
    if cell not in CELLS:
        raise UsageError(f"there is no recurrent cell called {cell!r}: choose one of {', '.join(CELLS)}")
    if layers < 1 or size < 1:
        raise UsageError(f"a recurrent network of {layers} layers of {size} units cannot be: both must be at least 1")
    between = dropout if layers > 1 else 0.0
    rnn = CELLS[cell](input_size, size, layers, batch_first=True, bidirectional=bidirectional, dropout=between)
    for name, parameter in rnn.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
            if cell == "lstm" and name.startswith("bias_ih"):
                nn.init.ones_(parameter[size : 2 * size])
            continue
        start = nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_
        for gate in parameter.detach().split(size):
            start(gate)
    return rnn


def reading_order(mask: Mask, reverse: bool = False) -> Order | None:
    """The places of the real tokens in the order of reading, then the padding; None when they lie so already."""
    if not reverse and not bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        return None
    # A stable sort keeps the order of what is equal; turned round before and after, it reverses it.
    if reverse:
        return mask.shape[1] - 1 - (~mask.flip(1)).long().argsort(dim=1, stable=True)
    return (~mask).long().argsort(dim=1, stable=True)


def arrange(
    states: Float[Tensor, "batch length size"], order: Int[Tensor, "batch chosen"] | None
) -> Float[Tensor, "batch chosen size"]:
    """The states at these places, in their order; None leaves them as they are."""
    return states if order is None else states.gather(1, order.unsqueeze(-1).expand(-1, -1, states.shape[-1]))


def to_front(states: Inputs, mask: Mask, reverse: bool = False) -> tuple[Inputs, Mask, Order | None]:
    """States and mask with the padding at the end, and the order that brings states back to where they were."""
    order = reading_order(mask, reverse)
    if order is None:
        return states, mask, None
    return arrange(states, order), mask.gather(1, order), order.argsort(dim=1)


class RecurrentEncoder(nn.Module):
    """A GRU or LSTM that reads a batch: one state per token, forward and backward side by side.

    `reverse` reads from the last token to the first (Sutskever et al. 2014); the states stay where their tokens are.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        size: int,
        layers: int,
        *,
        bidirectional: bool,
        reverse: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.rnn = recurrent_layers(cell, input_size, size, layers, bidirectional=bidirectional, dropout=dropout)
        self.directions = 2 if bidirectional else 1
        self.output_size = size * self.directions
        self.reverse = reverse

    def forward(self, inputs: Inputs, mask: Mask | None = None) -> tuple[States, Hidden]:
        """States [batch, length, output_size], zero at padding, and each layer's last state, both directions' ends."""
        if mask is None:
            mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        inputs, mask, back = to_front(inputs, mask, self.reverse)
        states, last = read_rows(self.rnn, inputs, mask)
        return arrange(states, back), self._joined(last)

    def _joined(self, last: Hidden) -> Hidden:
        """Both directions of a layer side by side; torch numbers layer 0 forward, layer 0 backward, layer 1 ..."""

        def joined(vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            starts = range(0, len(vectors), self.directions)
            return tuple(torch.cat(vectors[start : start + self.directions], dim=-1) for start in starts)

        return Hidden(joined(last.states), joined(last.cells))


def read_rows(
    rnn: nn.GRU | nn.LSTM, inputs: Inputs, mask: Mask, first: Hidden | None = None
) -> tuple[Float[Tensor, "batch length output_size"], Hidden]:
    """States of rows whose padding stands at the end, zero there, and the last state of each layer and direction.

    A row without any token has zeros for both.
    """
    before = None if first is None else first.for_torch()
    if packed_gru.serves(rnn, inputs):  # twice as quick on a CPU
        states, last = packed_gru.read_rows(rnn, inputs, mask, before if isinstance(before, Tensor) else None)
        return states, Hidden.from_torch(last)
    lengths = mask.sum(1)  # torch must read one token of a row at least; what comes of an empty one is forgotten
    packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    packed, last = rnn(packed, before)
    states, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
    real = (lengths > 0).unsqueeze(1)
    ends = tuple(part * real for part in last) if isinstance(last, tuple) else last * real
    return states.masked_fill(~mask.unsqueeze(-1), 0.0), Hidden.from_torch(ends)


class Bridge(nn.Module):
    """From the encoder's last states to the decoder's first: tanh(W h), layer by layer."""

    def __init__(self, encoder_size: int, size: int, layers: int, cell: str):
        super().__init__()
        self.states = nn.ModuleList(nn.Linear(encoder_size, size) for _ in range(layers))
        self.cells = nn.ModuleList(nn.Linear(encoder_size, size) for _ in range(layers if cell == "lstm" else 0))

    def forward(self, last: Hidden) -> Hidden:
        return Hidden(_across(self.states, last.states), _across(self.cells, last.cells))


def _across(layers: nn.ModuleList, vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.tanh(layer(vector)) for layer, vector in zip(layers, vectors, strict=True))


class RecurrentDecoder(nn.Module):
    """A GRU or LSTM that writes: over a whole target at once, or step by step with `fed_size` more inputs."""

    def __init__(self, cell: str, input_size: int, size: int, layers: int, *, fed_size: int = 0, dropout: float = 0.0):
        super().__init__()
        self.rnn = recurrent_layers(cell, input_size + fed_size, size, layers, dropout=dropout)
        self.advance: Advance = _lstm if cell == "lstm" else _gru
        self.input_size, self.layers = input_size, layers
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Inputs, hidden: Hidden, mask: Mask | None = None) -> tuple[States, Hidden]:
        """The top layer's states; nothing is fed. Padding, at the end of rows, is skipped where a mask tells it."""
        if mask is not None:
            return read_rows(self.rnn, inputs, mask, hidden)
        states, last = self.rnn(inputs, hidden.for_torch())
        return states, Hidden.from_torch(last)

    def project(self, inputs: Float[Tensor, "*batch input_size"]) -> Float[Tensor, "*batch gates"]:
        """What known inputs contribute to the first layer's gates, for all steps in one product."""
        weight, bias = self._weights(0)[:2]
        return linear(inputs, weight[:, : self.input_size], bias)

    def project_fed(self, fed: Float[Tensor, "*batch fed_size"]) -> Float[Tensor, "*batch gates"]:
        """What is fed contributes linearly too: a mean of vectors may be projected before or after it is taken."""
        return linear(fed, self._weights(0)[0][:, self.input_size :])

    def stepper(self) -> "Stepper":
        """The step, its matrices taken apart once for all steps.

        (first layer's gates, hidden, what is fed unless the gates know it) -> hidden
        """
        layers = [self._weights(layer) for layer in range(self.layers)]
        fed_weight = layers[0][0][:, self.input_size :]
        if torch.is_grad_enabled():  # a training has many steps, which multiply faster by a matrix of its own
            fed_weight = fed_weight.contiguous()

        def step(gates: Tensor, hidden: Hidden, fed: Tensor | None = None) -> Hidden:
            if fed is not None:
                gates = gates + linear(fed, fed_weight)
            states: list[Tensor] = []
            cells: list[Tensor] = []
            for layer, (input_weight, input_bias, weight, bias) in enumerate(layers):
                if layer:
                    gates = linear(self.dropout(states[-1]), input_weight, input_bias)
                recurrent = linear(hidden.states[layer], weight, bias)
                state, cell = self.advance(gates, recurrent, hidden.states[layer], hidden.cells[layer : layer + 1])
                states.append(state)
                cells.extend(cell)
            return Hidden(tuple(states), tuple(cells))

        return step

    def _weights(self, layer: int) -> list[Tensor]:
        """Of one layer: input weight and bias, recurrent weight and bias."""
        return [getattr(self.rnn, f"{part}_l{layer}") for part in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]


Stepper = Callable[..., Hidden]
Advance = Callable[[Tensor, Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, tuple[Tensor, ...]]]
"""(gates from the input, gates from the state, state, its cell if it has one) -> the next state and cell."""


def _gru(
    gates: Tensor, recurrent: Tensor, state: Tensor, cell: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    return gru_step.step(gates, recurrent, state), ()


def _lstm(
    gates: Tensor, recurrent: Tensor, state: Tensor, cell: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    enter, forget, new, leave = (gates + recurrent).chunk(4, dim=1)
    kept = torch.addcmul(torch.sigmoid(forget) * cell[0], torch.sigmoid(enter), torch.tanh(new))
    return torch.sigmoid(leave) * torch.tanh(kept), (kept,)
