"""The equations of recurrent networks, spelled out with plain matrices for one sentence, one token at a time.

    GRU     r = sigma(W_r x + U_r h),  z = sigma(W_z x + U_z h),  n = tanh(W_n x + r * (U_n h)),  h' = (1 - z) n + z h
    LSTM    i, f, o = sigma(W x + U h),  g = tanh(W_g x + U_g h),  c' = f c + i g,  h' = o tanh(c')

(each product with its own bias). The state of a layer is the pair (h, c); a GRU's c stays what it was.
"""

import torch
from torch import Tensor, nn

Layer = tuple[Tensor, Tensor]


def shaken(module: nn.Module, deviation: float = 0.5) -> nn.Module:
    """Every parameter drawn anew, biases and all, so that none of them hides behind its starting value."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=deviation)
    return module.eval()


def cell_step(rnn: nn.GRU | nn.LSTM, ending: str, x: Tensor, layer: Layer) -> Layer:
    """One token through one layer; the ending names it as torch does: l0, l0_reverse, l1, ..."""
    h, c = layer
    from_input = getattr(rnn, f"weight_ih_{ending}") @ x + getattr(rnn, f"bias_ih_{ending}")
    from_state = getattr(rnn, f"weight_hh_{ending}") @ h + getattr(rnn, f"bias_hh_{ending}")
    if isinstance(rnn, nn.GRU):
        (r, z, n), (u_r, u_z, u_n) = from_input.chunk(3), from_state.chunk(3)
        r, z = torch.sigmoid(r + u_r), torch.sigmoid(z + u_z)
        return (1 - z) * torch.tanh(n + r * u_n) + z * h, c
    i, f, g, o = (from_input + from_state).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def stack_step(rnn: nn.GRU | nn.LSTM, x: Tensor, layers: list[Layer]) -> list[Layer]:
    """One token through all layers, each reading the new state of the one below."""
    after = []
    for number, layer in enumerate(layers):
        after.append(cell_step(rnn, f"l{number}", x, layer))
        x = after[-1][0]
    return after


def read(rnn: nn.GRU | nn.LSTM, inputs: Tensor, reverse: bool = False) -> tuple[Tensor, list[Layer]]:
    """The states [length, size of all directions] of one sentence, in its order, and where each layer ended.

    `reverse` reads the sentence from its end: then "forward" is from the last token to the first.
    """
    ends = []
    for layer in range(rnn.num_layers):
        directions = []
        for ending in [f"l{layer}", f"l{layer}_reverse"][: 1 + rnn.bidirectional]:
            backwards = reverse != ending.endswith("reverse")
            places = list(range(len(inputs)))
            state = torch.zeros(rnn.hidden_size), torch.zeros(rnn.hidden_size)
            states = torch.zeros(len(inputs), rnn.hidden_size)
            for place in reversed(places) if backwards else places:
                state = cell_step(rnn, ending, inputs[place], state)
                states[place] = state[0]
            directions.append((states, state))
        inputs = torch.cat([states for states, _ in directions], dim=-1)
        ends.append(tuple(torch.cat([state[part] for _, state in directions]) for part in (0, 1)))
    return inputs, ends


def softmax(scores: list[Tensor]) -> list[Tensor]:
    """exp(s_j) / sum exp(s_k)"""
    total = sum(torch.exp(score) for score in scores)
    return [torch.exp(score) / total for score in scores]


def weighted_sum(weights: list[Tensor], states: Tensor) -> Tensor:
    return sum((weight * state for weight, state in zip(weights, states, strict=True)), torch.zeros(states.shape[1]))
