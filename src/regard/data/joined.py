"""Longer sentences from shorter ones: a few consecutive pairs read as one.

Where a corpus has only short sentences, joining shows what happens to long ones. How many pairs begin to be joined at
a place depends on the name of the split and on that place alone, so every run, model and process sees the same text.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from regard.data.pairs import Pair


def joined(pairs: Iterable[Pair], most: int, split: str) -> Iterator[Pair]:
    """Every pair once and in order, in groups of 1 to `most`, each size equally likely; streamed."""
    stream, place = iter(pairs), 0
    while group := list(islice(stream, group_size(split, place, most))):
        yield join(group)
        place += len(group)


def group_size(split: str, place: int, most: int) -> int:
    """How many pairs the group that begins at this place of the split is to have."""
    digest = hashlib.sha256(f"{split} {place}".encode()).digest()
    return int.from_bytes(digest[:8]) % most + 1


def join(pairs: Sequence[Pair]) -> Pair:
    """One pair of all the sources and all the targets; gold links move with their words, if all pairs have them."""
    source = " ".join(pair.source.strip() for pair in pairs)
    target = " ".join(pair.target.strip() for pair in pairs)
    links: list[tuple[int, int]] = []
    source_start = target_start = 0
    for pair in pairs:
        if pair.links is None:
            return Pair(source, target)
        links += [(source_start + left, target_start + right) for left, right in pair.links]
        source_start += len(pair.source.split())
        target_start += len(pair.target.split())
    return Pair(source, target, tuple(links))
