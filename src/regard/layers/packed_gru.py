"""A GRU over padded rows that is quick on a CPU.

    r = σ(W_r x + U_r h),   z = σ(W_z x + U_z h),   n = tanh(W_n x + r ⊙ U_n h),   h' = (1 - z) ⊙ n + z ⊙ h   (+ biases)

torch unrolls packed sequences through autograd, where the gradient of every time step is a copy of the whole batch's.
Here the way back is written out, so it costs what the way there costs: both directions step together, padding is never
read, and all that does not depend on the step before (the products with x, the gradients of W and U) is one large
product. The weights stay in `nn.GRU`.
"""

from itertools import accumulate
from typing import Any, TypeGuard

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.layers.full_precision import apply_in_full
from regard.layers.gru_step import ahead, back
from regard.layers.products import add_outer, linear

Gates = Float[Tensor, "directions tokens gates"]
States = Float[Tensor, "directions tokens size"]


def serves(rnn: nn.Module, inputs: Tensor) -> TypeGuard[nn.GRU]:
    """Whether `read_rows` may stand in for torch's own kernels."""
    return isinstance(rnn, nn.GRU) and rnn.bias and inputs.device.type == "cpu"


def read_rows(
    rnn: nn.GRU,
    inputs: Float[Tensor, "batch length input_size"],
    mask: Bool[Tensor, "batch length"],
    first: Float[Tensor, "stack batch size"] | None = None,
) -> tuple[Float[Tensor, "batch length output_size"], Float[Tensor, "stack batch size"]]:
    """The states of the real tokens, zero at padding, and the last state of each layer and direction, as torch has
    them; `first` are the states to begin with. Rows without a real token have zeros for both."""
    rows, ways = Rows(mask), 1 + rnn.bidirectional
    tokens = inputs.flatten(0, 1).index_select(0, rows.places)
    if first is None:
        first = inputs.new_zeros(rnn.num_layers * ways, len(mask), rnn.hidden_size)
    starts = first[:, rows.real].contiguous().split(ways)
    last = []
    for layer in range(rnn.num_layers):
        if layer:
            tokens = F.dropout(tokens, rnn.dropout, rnn.training)
        forward, *backward = both = _layer(rnn, layer, tokens, starts[layer], rows)
        last.append(both.new_zeros(len(both), len(mask), both.shape[-1]).index_copy(1, rows.real, both[:, rows.ends]))
        tokens = torch.cat([forward, *(way.index_select(0, rows.flip) for way in backward)], dim=-1)
    states = tokens.new_zeros(mask.numel(), tokens.shape[-1]).index_copy(0, rows.places, tokens)
    return states.unflatten(0, mask.shape), torch.cat(last)


class Rows:
    """How tokens are laid out for the steps: first the first tokens of all rows, longest row first, then the second
    tokens of those that have one, and so on."""

    def __init__(self, mask: Bool[Tensor, "batch length"]):
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        self.real = order[lengths > 0]
        lengths = lengths[lengths > 0]
        running = torch.arange(int(lengths.max()) if len(lengths) else 0)[:, None] < lengths  # [steps, rows]
        self.sizes: list[int] = running.sum(1).tolist()
        self.starts = [0, *accumulate(self.sizes)]  # of each step; the last is the end
        starts = torch.tensor(self.starts)
        step, row = running.nonzero(as_tuple=True)
        columns = mask.long().argsort(dim=1, descending=True, stable=True)  # of the real tokens, in their order
        self.places = self.real[row] * mask.shape[1] + columns[self.real[row], step]  # in the flattened batch
        self.flip = starts[lengths[row] - 1 - step] + row  # the same row read backwards
        self.ends = starts[lengths - 1] + torch.arange(len(lengths))
        later = step > 0
        self.before = starts[step[later] - 1] + row[later]  # the step before, for all but the first


def _layer(
    rnn: nn.GRU,
    layer: int,
    inputs: Float[Tensor, "tokens input_size"],
    first: Float[Tensor, "directions rows size"],
    rows: Rows,
) -> States:
    """One layer in all its directions, each in its own order of reading."""
    endings = [f"l{layer}", f"l{layer}_reverse"][: 1 + rnn.bidirectional]
    orders = [inputs, inputs.index_select(0, rows.flip)][: 1 + rnn.bidirectional]

    def weights(kind: str) -> list[Tensor]:
        return [getattr(rnn, f"{kind}_{ending}") for ending in endings]

    projected = zip(orders, weights("weight_ih"), weights("bias_ih"), strict=True)
    gates = torch.stack([linear(order, weight, bias) for order, weight, bias in projected])
    return apply_in_full(_Steps, gates, first, torch.stack(weights("weight_hh")), torch.stack(weights("bias_hh")), rows)


class _Steps(torch.autograd.Function):
    """The recurrence alone: from W x (+ bias) of all tokens to the states."""

    @staticmethod
    def forward(context: Any, gates: Gates, first: Tensor, weight: Tensor, bias: Tensor, rows: Rows) -> States:
        states = gates.new_empty(*gates.shape[:2], weight.shape[-1])
        products, kept = torch.empty_like(gates), torch.empty_like(gates)  # U h + b; r, z and n
        transposed, bias = weight.mT.contiguous(), bias.unsqueeze(1)
        state = first
        for start, count in zip(rows.starts, rows.sizes, strict=False):
            part = slice(start, start + count)
            state, following, product = state[:, :count], states[:, part], products[:, part]
            torch.baddbmm(bias, state, transposed, out=product)
            ahead(following, kept[:, part], gates[:, part], product, state)
            state = following
        context.save_for_backward(states, kept, products, first, weight)
        context.rows = rows
        return states

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        states, kept, products, first, weight = context.saved_tensors
        rows, gradient = context.rows, gradients[0].contiguous()
        to_gates, to_products = torch.empty_like(kept), torch.empty_like(kept)
        carried = torch.zeros_like(first)
        befores = [first, *(states[:, start:] for start in rows.starts)]  # the states before each step, and more
        for start, count, before in reversed(list(zip(rows.starts, rows.sizes, befores, strict=False))):
            part = slice(start, start + count)
            to_product, running = to_products[:, part], carried[:, :count]
            known = (gradient[:, part], kept[:, part], products[:, part], before[:, :count])
            back(to_gates[:, part], to_product, running, *known)
            torch.baddbmm(running, to_product, weight, out=running)  # FLOP counters do not know baddbmm_
        earlier = torch.cat([first, states[:, rows.before]], dim=1)
        to_weight = torch.zeros_like(weight)
        for ways in zip(to_weight, to_products, earlier, strict=True):
            add_outer(*ways)
        return to_gates, carried, to_weight, to_products.sum(1), None
