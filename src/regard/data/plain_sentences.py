"""Sentences of running text whose words stand between blanks, as WikiText's and most tokenised corpora's do.

A sentence ends with its line, after a word that is `.`, `!` or `?` (and closing marks that follow it), or when it is
as long as can be.
"""

from collections.abc import Iterable, Iterator

ENDS = frozenset(".!?")
CLOSING = frozenset("\"'”’»)")


def plain_sentences(lines: Iterable[str], max_words: int) -> Iterator[list[str]]:
    """The sentences of all lines, none of them empty, none longer than `max_words`."""
    for line in lines:
        words = line.split()
        start, ended = 0, False
        for place, word in enumerate(words):
            if (ended and word not in CLOSING) or place - start == max_words:
                yield words[start:place]
                start, ended = place, False
            ended = word in ENDS or (ended and word in CLOSING)
        if start < len(words):
            yield words[start:]
