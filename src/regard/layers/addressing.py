"""How a head finds its place in a memory, and writes there (Graves, Wayne & Danihelka 2014, section 3).

    w_c(i)  = softmax_i( beta K[k, M(i)] ),  K the cosine                eq. 5, 6   by content
    w_g     = g w_c + (1 - g) w_{t-1}                                    eq. 7      or from where it stood
    w~(i)   = sum_j w_g(j) s(i - j)                                      eq. 8      a few cells on or back, on a ring
    w(i)    = w~(i)^gamma / sum_j w~(j)^gamma                            eq. 9      and sharp again
    r       = sum_i w(i) M(i)                                            eq. 2      read
    M'(i)   = M(i) [1 - w(i) e] + w(i) a                                 eq. 3, 4   write

This is score -> align -> read: `Content` is the score, `Focus` the alignment, and the reading is any attention's. So
an NTM's heads are an ordinary `Attention`, one query per head, and `record` sees their final weights. The query of a
head is all it wishes for, and the weights it had before: [k, beta, g, s, gamma, w_{t-1}].
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Alignment, Attention, Memory, Score
from regard.attention.alignments import Aligned, Allowed, Queries, masked_softmax

Weights = Float[Tensor, "batch heads cells"]
Cells = Float[Tensor, "batch cells cell_size"]
Vectors = Float[Tensor, "batch heads cell_size"]

SMALLEST = 1e-16  # |k|^2 |M(i)|^2 below which the cosine fades to zero
FAINTEST = 1e-30  # weight below which a cell counts as unattended: its logarithm must be finite


def wishes_size(cell_size: int, shift: int) -> int:
    """How many numbers the controller emits per head: k, beta, g, s and gamma."""
    return cell_size + 1 + 1 + (2 * shift + 1) + 1


def addressing(cells: int, cell_size: int, shift: int) -> Attention:
    """The attention of any number of heads over one memory."""
    query_size = wishes_size(cell_size, shift) + cells
    return Attention(Content(query_size, cell_size), Focus(query_size, cells, shift))


class Content(Score):
    """beta K[k, M(i)]: a cosine with a sharpness beta > 0 that is chosen anew for every query."""

    def forward(self, query: Float[Tensor, "batch heads query_size"], memory: Memory) -> Weights:
        key, beta, _ = query.split((self.key_size, 1, query.shape[-1] - self.key_size - 1), dim=-1)
        squares = key.square().sum(-1, keepdim=True) * memory.keys.square().sum(-1).unsqueeze(-2)
        # In numbers of two bytes the least is larger: x^(-3/2), of the gradient, must be one as well.
        least = max(SMALLEST, torch.finfo(squares.dtype).max ** (-2 / 3))
        return F.softplus(beta) * (key @ memory.keys.mT) * squares.clamp(min=least).rsqrt()


class Focus(Alignment):
    """Softmax, then interpolation, shift and sharpening."""

    def __init__(self, query_size: int, cells: int, shift: int):
        super().__init__(query_size)
        places = 2 * shift + 1
        self.sizes = (query_size - cells - places - 2, 1, places, 1, cells)

    def forward(self, scores: Weights, allowed: Allowed, queries: Queries, memory: Memory) -> Aligned:
        _, gate, shifts, gamma, before = queries.vectors.split(self.sizes, dim=-1)
        weights = torch.lerp(before, masked_softmax(scores, allowed), gate.sigmoid())
        return Aligned(sharpened(shifted(weights, shifts.softmax(-1)), 1 + F.softplus(gamma)))


def shifted(weights: Weights, shifts: Float[Tensor, "batch heads places"]) -> Weights:
    """Circular convolution; `shifts` are the shares of a move by -n, ..., 0, ..., n cells."""
    reach = shifts.shape[-1] // 2
    moved = torch.stack([weights.roll(step, -1) for step in range(-reach, reach + 1)], dim=-2)
    return (moved * shifts.unsqueeze(-1)).sum(-2)


def sharpened(weights: Weights, gamma: Float[Tensor, "batch heads 1"]) -> Weights:
    """w^gamma over its sum, as a softmax of logarithms: it never divides by zero."""
    faintest = max(FAINTEST, torch.finfo(weights.dtype).tiny)
    return (gamma * weights.clamp(min=faintest).log()).softmax(-1)


def written(memory: Cells, weights: Weights, erase: Vectors, add: Vectors) -> Cells:
    """The memory after every head has erased and then every head has added; the order of the heads is no matter."""
    for place, worn in zip(weights.unsqueeze(-1).unbind(1), erase.unsqueeze(-2).unbind(1), strict=True):
        memory = torch.addcmul(memory, place, worn * memory, value=-1)
    return torch.baddbmm(memory, weights.mT, add)
