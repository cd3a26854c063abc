"""Gold word links in Pharaoh form: one line per pair, `i-j` for a sure link, `ipj` for a possible one.

i counts source words, j target words. In memory both start at 0; published files often start at 1.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.data.parallel import read_lines
from regard.errors import RegardError
from regard.files import whole_file

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True)
class Links:
    """The word links (source word, target word) of one pair: which must be found, and which may be."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]] = frozenset()  # always includes the sure ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "sure", frozenset(self.sure))
        object.__setattr__(self, "possible", frozenset(self.possible) | self.sure)


def read_links(path: str | Path, *, one_based: bool = False) -> list[Links]:
    """The links of every pair; an empty line is a pair without links."""
    corpus = []
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {number}"
        if line is None:
            raise RegardError(f"{place}: too long for links; check that this is the right file")
        found: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
        for link in line.split():
            match = _LINK.fullmatch(link)
            if match is None:
                raise RegardError(f"{place}: {link[:40]!r} is not a link; write i-j (sure) or ipj (possible)")
            source, target = int(match[1]) - one_based, int(match[3]) - one_based
            if source < 0 or target < 0:
                raise RegardError(f"{place}: {link!r} counts from 0 in a 1-based file; read it with one_based=False")
            found[match[2]].add((source, target))
        corpus.append(Links(sure=frozenset(found["-"]), possible=frozenset(found["p"])))
    return corpus


def to_pharaoh(links: Links, *, one_based: bool = False) -> str:
    """One line of links, in reading order of the source."""
    return " ".join(
        f"{source + one_based}{'-' if (source, target) in links.sure else 'p'}{target + one_based}"
        for source, target in sorted(links.possible)
    )


def write_links(path: str | Path, corpus: Iterable[Links], *, one_based: bool = False) -> None:
    """Write one line of links per pair; the file appears whole or not at all."""
    with whole_file(Path(path)) as file:
        for links in corpus:
            file.write(to_pharaoh(links, one_based=one_based).encode() + b"\n")
