"""Words a translator does not know, taken from the source by its attention.

Luong et al. 2015 (after Luong et al. 2015b): a target word `<unk>` is replaced by what a dictionary has for the source
word it looks at most, and by that source word itself if the dictionary has nothing: names and numbers are the same in
many languages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from regard.data.parallel import read_pairs
from regard.data.tokenizer import Tokenizer
from regard.tasks.alignment import Link

# What tokenizers take for a blank: unlike str.split they keep the four control characters in their word.
_BLANKS = re.compile(r"[^\S\x1c-\x1f]+")


def replaced_unknowns(
    tokenizer: Tokenizer, source: str, target: Sequence[int], links: Iterable[Link], dictionary: Mapping[str, str]
) -> str:
    """The text of `target`, each word with an unknown piece replaced through its link (source word, target word)."""
    words = source_words(tokenizer, source)
    looked_at = {said: words[read] for read, said in links}
    text = []
    for place, pieces in enumerate(_pieces_by_word(tokenizer, target)):
        known = tokenizer.unknown not in pieces or place not in looked_at
        text.append(tokenizer.decode(pieces) if known else _translated(looked_at[place], dictionary))
    return " ".join(filter(None, text))


def source_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text as its writer spelt them, as many as `tokenizer.words` counts."""
    spelt = [word for word in _BLANKS.split(text) if word]
    counted = _pieces_by_word(tokenizer, tokenizer.encode(text))
    # They differ only where a text holds the tokenizer's own mark of a word; its own spelling serves there.
    return spelt if len(spelt) == len(counted) else [tokenizer.decode(pieces) for pieces in counted]


def read_dictionary(path: str | Path, skipped: Counter[str] | None = None) -> dict[str, str]:
    """A dictionary word by word: one `source<TAB>target` a line; the first translation of a word is the one kept.

    Entries of several words are counted in `skipped["of several words"]`: a word is replaced by a word.
    """
    skipped = Counter() if skipped is None else skipped
    dictionary: dict[str, str] = {}
    for entry in read_pairs(path, skipped=skipped):
        source, target = entry.source.split(), entry.target.split()
        if len(source) == len(target) == 1:
            dictionary.setdefault(source[0], target[0])
        else:
            skipped["of several words"] += 1
    return dictionary


def _translated(word: str, dictionary: Mapping[str, str]) -> str:
    return dictionary.get(word) or dictionary.get(word.lower()) or word


def _pieces_by_word(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[list[int]]:
    numbers = tokenizer.words(tokens)
    pieces: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for token, number in zip(tokens, numbers, strict=True):
        if number >= 0:
            pieces[number].append(token)
    return pieces
