"""What a piece of a network costs: the arithmetic there and back, and what must be kept for the way back.

    y = W x              2 in out FLOPs for each vector x; back: as many for dx and for dW    keeps x
    softmax(q k') v      4 queries keys size FLOPs, back twice that                           keeps the context
    LayerNorm(x)                                                                              keeps x, mean and 1/std
    gelu(x), silu(x)                                                                          keeps x
    relu(x)              its result is what the next matrix keeps anyway                      keeps nothing
    Dropout(x)                                                                                keeps a byte a number

A multiplication and an addition are two FLOPs; only products of matrices are counted, as in torch.utils.flop_counter:
all else is a percent of a training's arithmetic. A causal attention counts in full, although kernels may skip the half
that is masked, and nothing is counted that a kernel computes twice: what is counted is what the model asks for, not
what a machine does ("model FLOPs", Chowdhery et al. 2022).

In mixed precision the products read numbers of two bytes, and normalisation reads the residual stream of four: hence
`narrow` and `wide`.
"""

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Cost:
    """Costs can be added, and multiplied by how often they are paid."""

    forward: float = 0.0  # FLOPs
    backward: float = 0.0  # FLOPs
    narrow: float = 0.0  # numbers kept in the precision of the products
    wide: float = 0.0  # numbers kept in full precision
    marks: float = 0.0  # bytes kept in any precision

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(mine + yours for mine, yours in zip(astuple(self), astuple(other), strict=True)))

    def __rmul__(self, times: float) -> "Cost":
        return Cost(*(times * part for part in astuple(self)))

    @property
    def training(self) -> float:
        """FLOPs of a step: there and back."""
        return self.forward + self.backward

    def kept_bytes(self, narrow_bytes: int) -> float:
        """The activations: all that is kept until the way back."""
        return narrow_bytes * self.narrow + 4 * self.wide + self.marks


def product(flops: float, *, moves_inputs: bool = True) -> Cost:
    """A matrix product; the first one of a network needs no gradient of what it reads."""
    return Cost(forward=flops, backward=flops * (2 if moves_inputs else 1))


def linear(vectors: float, inputs: int, outputs: int, *, keeps: bool = True, moves_inputs: bool = True) -> Cost:
    """W x; `keeps=False` where x is kept by somebody else already."""
    kept = Cost(narrow=vectors * inputs if keeps else 0.0)
    return product(2.0 * vectors * inputs * outputs, moves_inputs=moves_inputs) + kept


def attention(rows: float, queries: float, keys: float, size: int, heads: int) -> Cost:
    """q k' and the reading; keeps the context and, for every query and head, the logarithm of the softmax's sum."""
    return product(4.0 * rows * queries * keys * size) + Cost(narrow=rows * queries * size, wide=rows * queries * heads)


def norm(vectors: float, size: int) -> Cost:
    return Cost(wide=vectors * (size + 2))


def dropout(numbers: float, probability: float) -> Cost:
    return Cost(marks=numbers if probability else 0.0)


def activation(numbers: float, name: str) -> Cost:
    return Cost(narrow=0.0 if name == "relu" else numbers)
