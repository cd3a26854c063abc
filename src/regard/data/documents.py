"""Documents: texts as sentences of words, each word with its place in the original text.

Sentences end where a small set of rules says so: at `<br />` and blank lines; at `. ! ? …` before a blank, unless the
full stop belongs to an abbreviation (Dr.), an initial (J. R.) or an ellipsis that goes on in lower case, or a quoted
question goes on ("Really?" he said). Words are runs of letters and digits with the apostrophes inside them; every
punctuation mark (or run of the same mark) is a word of its own, and so is every Chinese or Japanese character.

Nothing is lost: a sentence of too many words is cut into pieces, a word of too many characters likewise.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from regard.data.tokenizer import Tokenizer

Span = tuple[int, int]

MAX_WORDS = 50
_LONGEST_WORD = 100  # characters
_KNOWN_WORDS = 500_000  # remembered at most; more are encoded anew

_IDEOGRAPH = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARK = (
    r"!-/:-@\[-`{-~\u00a1-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"  # ASCII and Latin-1
    r"\u0964\u0965\u2010-\u205e\u20a0-\u20cf\u2190-\u2bff\u3001-\u303f\uff01-\uff0f\uff1a-\uff20"
    "\U0001f000-\U0001faff"
)
_WORD = re.compile(
    rf"[^\s{_MARK}{_IDEOGRAPH}]{{1,{_LONGEST_WORD}}}(?:['’][^\s{_MARK}{_IDEOGRAPH}]{{1,{_LONGEST_WORD}}})?"
    rf"|[{_IDEOGRAPH}]|([{_MARK}])\1{{0,{_LONGEST_WORD}}}"
)
_BREAK = re.compile(r"(?:<br\s*/?>|\n[ \t\r]*\n)", re.IGNORECASE)
_END = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]++)(?P<closing>["'”’»)\]]*)(?=\s++(?P<next>\S))|[。！？।॥]+[」』”’）]*"""
)
_BEFORE = re.compile(r"[^\s\"'“‘«(\[]{0,20}$")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\w+",
        "mr mrs ms dr prof st sr jr rev hon capt lt col gen sgt gov sen rep pres vs no nos vol fig ed eds pp dept est "
        "approx ave blvd bros inc ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec cf eg ie",
    )
)


@dataclass(frozen=True)
class Document:
    """A text and its words: `sentences[i][j]` is where word j of sentence i begins and ends."""

    text: str
    sentences: tuple[tuple[Span, ...], ...]

    def words(self) -> list[list[str]]:
        return [[self.text[start:end] for start, end in sentence] for sentence in self.sentences]


def read_document(text: str, max_words: int = MAX_WORDS) -> Document:
    """The sentences and words of a text; a sentence of more than `max_words` becomes several."""
    sentences = []
    for start, end in sentence_spans(text):
        words = [found.span() for found in _WORD.finditer(text, start, end)]
        sentences += [tuple(words[first : first + max_words]) for first in range(0, len(words), max_words)]
    return Document(text, tuple(sentences))


def sentence_spans(text: str) -> Iterator[Span]:
    """Where the sentences of a text begin and end; breaks belong to none."""
    start = 0
    for found in _BREAK.finditer(text):
        yield from _sentences_between(text, start, found.start())
        start = found.end()
    yield from _sentences_between(text, start, len(text))


def _sentences_between(text: str, start: int, end: int) -> Iterator[Span]:
    for found in _END.finditer(text, start, end):
        if _ends_sentence(text, start, found):
            yield start, found.end()
            start = found.end()
    if text[start:end].strip():
        yield start, end


def _ends_sentence(text: str, start: int, found: re.Match[str]) -> bool:
    mark, follows = found["mark"], found["next"]
    if mark is None:  # Chinese, Japanese and Indian full stops stand nowhere else
        return True
    goes_on = follows.islower()
    if mark != ".":
        is_ellipsis = mark.startswith(("..", "…"))
        return not (goes_on and (is_ellipsis or found["closing"]))
    before = _BEFORE.search(text, max(start, found.start() - 20), found.start())
    word = before[0] if before else ""
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    is_abbreviation = word.lower() in _ABBREVIATIONS or (goes_on and "." in word)
    return not (is_initial or is_abbreviation)


@dataclass(frozen=True)
class Encoded:
    """A document as a model reads it: all tokens one after the other, and how many each sentence has."""

    tokens: NDArray[np.integer]
    lengths: NDArray[np.integer]


class WordEncoder:
    """Words to tokens. Each word is encoded by itself, so it is known which tokens are whose."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}

    def tokens(self, words: Sequence[str]) -> list[list[int]]:
        """For each word its tokens: at least one."""
        new = list({word for word in words if word not in self._known})
        if len(self._known) + len(new) > _KNOWN_WORDS:
            self._known, new = {}, list(set(words))
        for word, tokens in zip(new, self.tokenizer.encode_all(new), strict=True):
            self._known[word] = tokens or [self.tokenizer.required("unknown")]
        return [self._known[word] for word in words]

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        words = iter(self.tokens(list(chain.from_iterable(sentences))))
        rows = [list(chain.from_iterable(islice(words, len(sentence)))) for sentence in sentences]
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
        return Encoded(tokens, np.array([len(row) for row in rows], dtype=np.int64))


def padded_documents(documents: Sequence[Encoded], pad: int) -> NDArray[np.int64]:
    """One table [documents, sentences, words]; there is always room for one word, be it padding."""
    lengths = padded_rows([document.lengths for document in documents], 0)
    table = np.full((*lengths.shape, max(1, int(lengths.max()))), pad, dtype=np.int64)
    table[np.arange(table.shape[-1]) < lengths[..., None]] = np.concatenate([known.tokens for known in documents])
    return table


def padded_rows(rows: Sequence[NDArray[np.integer]], pad: int) -> NDArray[np.int64]:
    """One table [rows, length], filled up on the right; there is always room for one token."""
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(1, int(lengths.max()))), pad, dtype=np.int64)
    table[np.arange(table.shape[-1]) < lengths[:, None]] = np.concatenate(rows)
    return table
