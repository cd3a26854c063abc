"""Sentences as their words' numbers and characters, between a begin and an end mark: what ELMo and taggers read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.characters import MAX_CHARACTERS, Characters
from regard.data.documents import WordEncoder, padded_rows
from regard.data.tokenizer import Tokenizer

NO_WORD = -1  # fills rows of numbers up


@dataclass(frozen=True)
class Spelt:
    """A batch, filled up on the right: with -1 the numbers, with 0 the characters."""

    numbers: NDArray[np.int64]  # [sentences, words], the marks among them
    chars: NDArray[np.int64]  # [sentences, words, characters]


class Speller:
    """Numbers and spells the words of sentences. A word the tokenizer does not hold whole is unknown to it."""

    def __init__(self, tokenizer: Tokenizer, width: int = MAX_CHARACTERS):
        self.tokenizer, self.characters = tokenizer, Characters(width)
        self._words = WordEncoder(tokenizer)

    def numbers(self, words: Sequence[str]) -> list[int]:
        """One number a word, without marks."""
        unknown = self.tokenizer.unknown
        return [tokens[0] if len(tokens) == 1 else unknown for tokens in self._words.tokens(words)]

    def batch(self, sentences: Sequence[Sequence[str]]) -> Spelt:
        start, end = self.tokenizer.start, self.tokenizer.end
        rows = [np.array([start, *self.numbers(words), end]) for words in sentences]
        return Spelt(padded_rows(rows, NO_WORD), self.characters.batch(sentences))
