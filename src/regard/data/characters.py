"""Words as characters, in the form of the published ELMo.

A word is its UTF-8 bytes between a begin and an end mark, filled up to a fixed width. Numbers:

    0           no word here: a place that only fills up a batch
    1 - 256     the bytes
    257, 258    the only character of <S>, which begins a sentence, and of </S>, which ends it
    259, 260    the beginning and the end of a word
    261         what fills a word up
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_CHARACTERS = 50  # of a word, its marks among them; what is longer is cut
NOTHING, SENTENCE_START, SENTENCE_END, WORD_START, WORD_END, FILL = 0, 257, 258, 259, 260, 261
_REMEMBERED = 500_000  # words; more are encoded anew


class Characters:
    """Turns words into rows of numbers, and remembers those it has seen."""

    def __init__(self, width: int = MAX_CHARACTERS):
        self.width = width
        self.start, self.end = self._row([SENTENCE_START]), self._row([SENTENCE_END])
        self._known: dict[str, NDArray[np.int16]] = {}

    def word(self, word: str) -> NDArray[np.int16]:
        row = self._known.get(word)
        if row is None:
            row = self._row([byte + 1 for byte in word.encode("utf-8", "replace")])
            if len(self._known) < _REMEMBERED:
                self._known[word] = row
        return row

    def batch(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """[sentences, words, width]: each sentence between <S> and </S>, filled up on the right."""
        length = 2 + max((len(words) for words in sentences), default=0)
        table = np.zeros((len(sentences), length, self.width), dtype=np.int64)
        for row, words in zip(table, sentences, strict=True):
            row[: len(words) + 2] = [self.start, *map(self.word, words), self.end]
        return table

    def _row(self, numbers: Sequence[int]) -> NDArray[np.int16]:
        row = np.full(self.width, FILL, dtype=np.int16)
        spelt = [WORD_START, *numbers[: self.width - 2], WORD_END]
        row[: len(spelt)] = spelt
        return row
