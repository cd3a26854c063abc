"""[CLS] a [SEP] b [SEP]: a text, or a pair of texts, as one row of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.documents import Encoded
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError

Row = NDArray[np.int64]
Tokens = Sequence[int] | NDArray[np.integer]


Text = str | tuple[str, str]  # one, or a pair


def as_pair(line: str) -> Text:
    """A line of text; two texts with a tab between them are a pair."""
    first, tab, second = line.partition("\t")
    return (first, second) if tab else line


def framed(first: Tokens, second: Tokens | None, start: int, end: int) -> Row:
    """The special tokens around one text or two."""
    parts = [[start], first, [end]] if second is None else [[start], first, [end], second, [end]]
    return np.concatenate(parts).astype(np.int64)


def shared_room(first: Any, second: Any, room: int) -> tuple[Any, Any]:
    """How many tokens two texts (numbers or arrays of them) may keep when together they have `room`: the longer one is
    cut first, and both to half if need be."""
    kept = np.minimum(second, np.maximum(room - first, room // 2))
    return np.minimum(first, room - kept), kept


class Frame:
    """Texts to rows of at most `max_length` tokens; what does not fit is cut off at the end of the longer text."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        if max_length < 4:
            raise UsageError(f"a row of {max_length} tokens has no room for words beside [CLS] and [SEP]; ask for more")
        self.tokenizer, self.max_length = tokenizer, max_length
        self.start, self.end = tokenizer.required("start"), tokenizer.required("end")

    def encode(self, text: str, second: str | None = None) -> tuple[Encoded, bool]:
        """The row, and whether something was cut. A row without a word is empty."""
        parts = [self.tokenizer.encode(part) for part in (text, second) if part is not None]
        return self.fit(parts) if any(parts) else (Encoded(np.zeros(0, np.int64), np.zeros(0, np.int64)), False)

    def fit(self, parts: Sequence[list[int]]) -> tuple[Encoded, bool]:
        """The same for the tokens of one text or two, words or not."""
        first, second = parts[0], parts[1] if len(parts) > 1 else None
        room = self.max_length - 1 - len(parts)
        most, others = shared_room(len(first), len(second or ()), room)
        kept = first[:most], None if second is None else second[:others]
        row = framed(*kept, self.start, self.end)
        lengths = [most + 2] if second is None else [most + 2, others + 1]
        return Encoded(row, np.array(lengths)), bool(most + others < sum(map(len, parts)))


def encode_around(tokenizer: Tokenizer, texts: Iterable[str], spelling: str | None, number: int) -> Iterator[list[int]]:
    """The tokens of texts in which `spelling` stands for the special token `number`, which a tokenizer would take for
    plain text; None if there is no such token."""
    parts = [text.split(spelling) if spelling else [text] for text in texts]
    encoded = iter(tokenizer.encode_all(list(chain.from_iterable(parts))))
    for pieces in parts:
        row = next(encoded)
        for _ in pieces[1:]:
            row = [*row, number, *next(encoded)]
        yield row
