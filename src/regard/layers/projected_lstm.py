"""An LSTM whose states are small and whose cells are large (Sak et al. 2014), both clipped, in both directions.

    i, g, f, o = W x_t + U h_{t-1} + b
    c_t = clip(σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g))
    h_t = clip(P (σ(o) ⊙ tanh(c_t)))

torch's own LSTM can project but not clip. As in `packed_gru`, padding is never read, both directions step together, all
that does not depend on the step before is one large product, and the way back is written out.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.errors import UsageError
from regard.layers import packed_gru
from regard.layers.full_precision import apply_in_full

Vectors = Float[Tensor, "directions tokens size"]


@dataclass(frozen=True)
class Carried:
    """What one layer knows after a row of tokens; batch first. It carries no gradient."""

    states: Float[Tensor, "batch directions size"]
    cells: Float[Tensor, "batch directions cell_size"]


class Rows(packed_gru.Rows):
    """The order in which the tokens of a batch are stepped through, on the device of the batch.

    Vectors "by direction" are [2, tokens, size]: the forward direction in this order, the backward one in its own.
    """

    def __init__(self, mask: Bool[Tensor, "batch length"]):
        super().__init__(mask.cpu())
        self.shape = mask.shape
        for name in ("real", "places", "flip", "ends", "before"):
            setattr(self, name, getattr(self, name).to(mask.device))

    def real_ones(self, batch: Tensor) -> Tensor:
        """The real tokens of [batch, length, ...]."""
        return batch.flatten(0, 1)[self.places]

    def by_direction(self, tokens: Float[Tensor, "tokens size"]) -> Float[Tensor, "2 tokens size"]:
        return torch.stack([tokens, tokens[self.flip]])

    def together(self, states: Float[Tensor, "2 tokens size"]) -> Float[Tensor, "tokens both"]:
        """Forward and backward states of each token side by side."""
        return torch.cat([states[0], states[1][self.flip]], dim=-1)

    def in_place(self, tokens: Float[Tensor, "tokens size"]) -> Float[Tensor, "batch length size"]:
        """Back in the batch, zero at padding."""
        batch = tokens.new_zeros(self.shape.numel(), tokens.shape[-1])
        return batch.index_copy(0, self.places, tokens).unflatten(0, self.shape)


class ProjectedLSTM(nn.Module):
    """One layer in both directions, each with its own weights."""

    def __init__(
        self,
        input_size: int,
        size: int,
        cell_size: int,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ):
        super().__init__()
        if min(input_size, size, cell_size) < 1:
            raise UsageError(
                f"an LSTM of {cell_size} cells and states of {size} over inputs of {input_size} cannot be: "
                "all must be at least 1"
            )
        self.input_weight = nn.Parameter(torch.empty(2, 4 * cell_size, input_size))
        self.weight = nn.Parameter(torch.empty(2, 4 * cell_size, size))
        self.bias = nn.Parameter(torch.zeros(2, 4 * cell_size))
        self.projection = nn.Parameter(torch.empty(2, size, cell_size))
        self.clips = (cell_clip or float("inf"), projection_clip or float("inf"))
        for matrix, gates in ((self.input_weight, 4), (self.weight, 4), (self.projection, 1)):
            for direction in matrix.detach():
                for part in direction.chunk(gates):
                    nn.init.xavier_uniform_(part)
        nn.init.ones_(self.bias.detach()[:, 2 * cell_size : 3 * cell_size])  # remember, until told otherwise

    def forward(
        self, inputs: Float[Tensor, "2 tokens input_size"], rows: Rows, first: Carried | None = None
    ) -> tuple[Float[Tensor, "2 tokens size"], Carried]:
        """States by direction, and what each row carries on; a row without tokens carries what it had."""
        if first is None:
            first = self._nothing(rows.shape[0], inputs)
        state, cell = (part[rows.real].transpose(0, 1) for part in (first.states, first.cells))
        gates = torch.baddbmm(self.bias.unsqueeze(1), inputs, self.input_weight.mT)
        states, cells = apply_in_full(_Steps, gates, state, cell, self.weight, self.projection, rows, self.clips)
        ends = [part[:, rows.ends].detach().transpose(0, 1) for part in (states, cells)]
        before = (first.states, first.cells)
        return states, Carried(*(old.index_copy(0, rows.real, new) for old, new in zip(before, ends, strict=True)))

    def _nothing(self, batch: int, like: Tensor) -> Carried:
        size, cell_size = self.projection.shape[1:]
        return Carried(like.new_zeros(batch, 2, size), like.new_zeros(batch, 2, cell_size))


class _Steps(torch.autograd.Function):
    """The recurrence alone: from W x + b of all tokens to the states. Cells are given for carrying on only."""

    @staticmethod
    def forward(
        context: Any,
        gates: Vectors,
        first_state: Tensor,
        first_cell: Tensor,
        weight: Tensor,
        projection: Tensor,
        rows: Rows,
        clips: tuple[float, float],
    ) -> tuple[Tensor, Tensor]:
        size, cell_size = projection.shape[1:]
        opened = torch.empty_like(gates)  # σ(i), tanh(g), σ(f), σ(o)
        cells, squashed = (gates.new_empty(*gates.shape[:2], cell_size) for _ in range(2))  # c and tanh(c)
        states = gates.new_empty(*gates.shape[:2], size)
        state, cell = first_state, first_cell
        recurrent, project = weight.mT.contiguous(), projection.mT.contiguous()
        for start, count in zip(rows.starts, rows.sizes, strict=False):
            part = slice(start, start + count)
            doors = torch.baddbmm(gates[:, part], state[:, :count], recurrent)
            doors[..., :cell_size].sigmoid_()
            doors[..., cell_size : 2 * cell_size].tanh_()
            doors[..., 2 * cell_size :].sigmoid_()
            enter, new, keep, leave = doors.chunk(4, dim=-1)
            cell = torch.addcmul(enter * new, keep, cell[:, :count]).clamp_(-clips[0], clips[0])
            seen = cell.tanh()
            state = torch.bmm(leave * seen, project).clamp_(-clips[1], clips[1])
            opened[:, part], cells[:, part], squashed[:, part], states[:, part] = doors, cell, seen, state
        context.save_for_backward(opened, cells, squashed, states, first_state, first_cell, weight, projection)
        context.rows, context.clips = rows, clips
        context.mark_non_differentiable(cells)
        return states, cells

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        opened, cells, squashed, states, first_state, first_cell, weight, projection = context.saved_tensors
        rows, (cell_clip, projection_clip) = context.rows, context.clips
        enter, new, keep, leave = opened.chunk(4, dim=-1)
        before = torch.cat([first_state, states[:, rows.before]], dim=1)
        # What does not depend on the steps that follow, for all tokens at once: dh/d(Pm), dc/dm, and d(gates)/dc.
        free_state = states.abs() < projection_clip
        free_cell = cells.abs() < cell_clip
        to_cell = leave * (1 - squashed * squashed)
        to_leave = squashed * leave * (1 - leave)
        earlier = torch.cat([first_cell, cells[:, rows.before]], dim=1)
        to_gates = torch.cat([new * enter * (1 - enter), enter * (1 - new * new), earlier * keep * (1 - keep)], dim=-1)
        projected = torch.empty_like(states)  # gradients of P m
        gates = torch.empty_like(opened)
        count_before = 0
        later_state = later_cell = states.new_empty(0)
        for start, count in zip(reversed(rows.starts[:-1]), reversed(rows.sizes), strict=True):
            part = slice(start, start + count)
            state = gradients[0][:, part].clone()
            if count_before:
                state[:, :count_before] += later_state
            torch.mul(state, free_state[:, part], out=(out := projected[:, part]))
            output = torch.bmm(out, projection)
            cell = output * to_cell[:, part]
            if count_before:
                cell[:, :count_before] += later_cell
            cell *= free_cell[:, part]
            gate, width = gates[:, part], cell.shape[-1]
            torch.mul(cell.repeat(1, 1, 3), to_gates[:, part], out=gate[..., : 3 * width])
            torch.mul(output, to_leave[:, part], out=gate[..., 3 * width :])
            later_state, later_cell = torch.bmm(gate, weight), cell * keep[:, part]
            count_before = count
        return gates, None, None, gates.mT @ before, projected.mT @ (leave * squashed), None, None
