"""How well does a query match a key? The six scores of the literature, one class each.

    dot          q . k                          Luong et al. 2015
    scaled_dot   q . k / sqrt(n)                Vaswani et al. 2017
    general      q . W k                        Luong et al. 2015
    cosine       beta * q . k / (|q| |k|)       Graves et al. 2014, content-based; beta is learnt and starts at 1
    additive     v . tanh(W q + U k)            Bahdanau et al. 2015; = v . tanh(W [q; k]), hence also "concat"
    location     (W q)_i                        Luong et al. 2015: from the query alone, one row of W per place

A score prepares the keys once (`prepare_keys`, called by `remember`) and compares them with each query
(`forward`). Four of the six are inner products of a prepared query with prepared keys (`is_inner`): those can run
on a fused kernel. A new score is one class here and one row in `SCORES`.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.memory import Memory
from regard.errors import RegardError

Queries = Float[Tensor, "*batch queries query_size"]
Keys = Float[Tensor, "*batch keys key_size"]
Scores = Float[Tensor, "*batch queries keys"]


class Score(nn.Module):
    """Compares queries of `query_size` with keys of `key_size`."""

    is_inner: ClassVar[bool] = False

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        self.query_size, self.key_size = query_size, key_size

    def prepare_keys(self, states: Keys) -> Tensor:
        return states

    def prepare_query(self, query: Queries) -> Tensor:
        return query

    def forward(self, query: Queries, memory: Memory) -> Scores:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"query_size={self.query_size}, key_size={self.key_size}"


class InnerProduct(Score):
    """Base of the scores that are q' . k' for some q' and k'."""

    is_inner = True

    def forward(self, query: Queries, memory: Memory) -> Scores:
        return self.prepare_query(query) @ memory.keys.mT


class Dot(InnerProduct):
    """q . k"""

    def __init__(self, query_size: int, key_size: int):
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise RegardError(
                f"the {type(self).__name__} score compares query and key element by element, but their sizes "
                f"are {query_size} and {key_size}: use the general or additive score, or make the sizes equal"
            )


class ScaledDot(Dot):
    """q . k / sqrt(n), n the size of both"""

    def prepare_query(self, query: Queries) -> Tensor:
        return query / math.sqrt(self.query_size)


class Cosine(Dot):
    """beta * cos(q, k). Cosines lie in [-1, 1]; without a learnt beta their softmax could never be sharp."""

    def __init__(self, query_size: int, key_size: int):
        super().__init__(query_size, key_size)
        self.sharpness = nn.Parameter(torch.ones(()))

    def prepare_keys(self, states: Keys) -> Tensor:
        return unit(states)

    def prepare_query(self, query: Queries) -> Tensor:
        return self.sharpness * unit(query)


def unit(vectors: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
    """Of length one, or nearly zero. In numbers of two bytes the least length that is divided by is larger: they must
    hold the gradient, too."""
    return F.normalize(vectors, dim=-1, eps=max(1e-12, torch.finfo(vectors.dtype).max ** -0.5))


class General(InnerProduct):
    """q . W k"""

    def __init__(self, query_size: int, key_size: int):
        super().__init__(query_size, key_size)
        self.weight = nn.Linear(key_size, query_size, bias=False)

    def prepare_keys(self, states: Keys) -> Tensor:
        return self.weight(states)


class Additive(Score):
    """v . tanh(W q + U k)"""

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None):
        super().__init__(query_size, key_size)
        hidden_size = hidden_size or key_size
        self.query = nn.Linear(query_size, hidden_size, bias=False)  # W
        self.key = nn.Linear(key_size, hidden_size, bias=False)  # U
        self.energy = nn.Linear(hidden_size, 1, bias=False)  # v

    def prepare_keys(self, states: Keys) -> Tensor:
        return self.key(states)

    def forward(self, query: Queries, memory: Memory) -> Scores:
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + memory.keys.unsqueeze(-3))
        return self.energy(hidden).squeeze(-1)  # [..., queries, keys]


class Location(Score):
    """(W q)_i: the query alone says which place to look at, up to `max_keys` places."""

    def __init__(self, query_size: int, key_size: int, max_keys: int = 512):
        super().__init__(query_size, key_size)
        self.place = nn.Linear(query_size, max_keys, bias=False)  # W

    def forward(self, query: Queries, memory: Memory) -> Scores:
        max_keys, longest = self.place.out_features, int(memory.lengths().max())
        if longest > max_keys:
            raise RegardError(
                f"the location score knows {max_keys} places but was given {longest} keys: shorten the "
                "input or build the score with a larger max_keys (model.max_source in a recipe)"
            )
        scores = F.linear(query, self.place.weight[: max(1, longest)])
        if memory.mask is None:
            return scores
        # Places are counted among the real keys, so that padding changes nothing.
        places = memory.positions().unsqueeze(-2).expand(*scores.shape[:-1], len(memory))
        return scores.gather(-1, places)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "additive": Additive,
    "concat": Additive,
    "cosine": Cosine,
    "location": Location,
}
