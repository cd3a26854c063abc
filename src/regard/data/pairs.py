"""A sentence and its translation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A source sentence, its translation and, where they are known, the gold word links between them."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None  # gold word links (source word, target word), 0-based
