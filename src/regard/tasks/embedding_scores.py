"""How far do 8 bits turn vectors? Nobody knows the right ones; they are held against those of the whole model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

TINY = np.finfo(np.float32).tiny  # a vector of zeros has a length, too
SHOWN = 60  # characters of a text


@dataclass(frozen=True)
class TurnedVectors:
    """Everything `regard evaluate --int8 --texts` reports."""

    texts: int
    mean_cosine: float  # of a vector in 8 bits with the whole one
    smallest_cosine: float
    most_turned: str  # the text it belongs to

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        text = self.most_turned if len(self.most_turned) <= SHOWN else f"{self.most_turned[:SHOWN]}..."
        return (
            f"vectors of {self.texts:,} texts in 8 bits: cosine {self.mean_cosine:.4f} with the whole ones on average, "
            f"{self.smallest_cosine:.4f} at least ({text!r})"
        )


def turned_vectors(
    texts: Sequence[str],
    whole: Float[np.ndarray, "texts size"],
    in_8_bits: Float[np.ndarray, "texts size"],
) -> TurnedVectors:
    """`whole` and `in_8_bits` are the vectors of at least one text, of any length."""
    lengths = np.linalg.norm(whole, axis=1) * np.linalg.norm(in_8_bits, axis=1)
    cosines = (whole * in_8_bits).sum(1) / np.maximum(lengths, TINY)
    return TurnedVectors(len(texts), float(cosines.mean()), float(cosines.min()), texts[int(cosines.argmin())])
