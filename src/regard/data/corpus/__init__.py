"""The bundled corpus: English-Spanish sentence pairs with gold word links, from a grammar written for this project.

It needs no network and no file. The grammar speaks like a phrase book: words agree, reorder, vanish and fuse, and every
link is known because phrases are built in both languages at once (see `phrase`). The same English sentence always has
the same Spanish one, so a model can learn all of it.

The splits share no sentence on either side, at any count and any seed: a sentence belongs to a split by the checksum of
its Spanish words. Two English sentences with one translation ("he reads", "she reads") therefore stay together.

    from regard.data.corpus import corpus
    train, test = corpus("train"), corpus("test")
"""

import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from random import Random

from regard.data.corpus.grammar import everyday, sentence
from regard.data.corpus.phrase import Phrase, polish
from regard.data.pairs import Pair
from regard.errors import UsageError

COUNTS = {"train": 12_000, "valid": 500, "test": 500}
PUNCTUATION = frozenset([".", ",", "?", "!", "¿", "¡"])
TAUGHT = 5  # how often train must have said a word before valid and test may use it
SPREAD = 40  # sentences between two everyday phrases in train
SHARES = 12  # one sentence in twelve belongs to valid, one to test

__all__ = ["COUNTS", "corpus"]


def corpus(split: str, *, count: int | None = None, seed: int = 0) -> list[Pair]:
    """The first `count` pairs of a split ("train", "valid" or "test"), always the same for the same seed.

    A smaller count is the beginning of a larger one. Every word of valid and test occurs several times in the
    default train split of the same seed.
    """
    if split not in COUNTS:
        raise UsageError(f"the bundled corpus has no split {split!r}: choose one of {', '.join(COUNTS)}")
    if count is not None and count < 0:
        raise UsageError(f"the bundled corpus cannot give {count} pairs: ask for a count of 0 or more")
    pairs = _train(seed) if split == "train" else _held_out(split, seed)
    return list(islice(pairs, COUNTS[split] if count is None else count))


def _train(seed: int) -> Iterator[Pair]:
    """Sentences of the grammar with every everyday phrase strewn among them once."""
    phrases = everyday()
    Random(seed).shuffle(phrases)
    alone = {_text(phrase.english) for phrase in phrases}
    stream = (pair for pair in _sentences("train", seed) if pair.source not in alone)
    for phrase in phrases:
        yield from islice(stream, SPREAD)
        yield _pair(phrase)
    yield from stream


def _held_out(split: str, seed: int) -> Iterator[Pair]:
    """New sentences of words that the default train split of this seed has taught."""
    english, spanish = _taught(seed)
    for pair in _sentences(split, seed):
        if english.issuperset(pair.source.split()) and spanish.issuperset(pair.target.split()):
            yield pair


@lru_cache(maxsize=4)
def _taught(seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """The words of each language that occur often enough in the default train split to be learned from it."""
    train = corpus("train", seed=seed)
    sides = ((pair.source for pair in train), (pair.target for pair in train))
    english, spanish = (Counter(word for text in side for word in text.split()) for side in sides)
    return (
        frozenset(word for word, count in english.items() if count >= TAUGHT),
        frozenset(word for word, count in spanish.items() if count >= TAUGHT),
    )


def _sentences(split: str, seed: int) -> Iterator[Pair]:
    """The new sentences of a split, without end."""
    rng = Random(f"{split} {seed}")
    seen: set[str] = set()
    while True:
        phrase = sentence(rng)
        source = _text(phrase.english)
        if source not in seen and _split(phrase) == split:
            seen.add(source)
            yield _pair(phrase)


def _text(words: tuple[str, ...]) -> str:
    return " ".join(words)


def _bare(words: tuple[str, ...]) -> str:
    """The words without punctuation: with or without its full stop, a sentence is the same sentence."""
    return " ".join(word for word in words if word not in PUNCTUATION)


_EVERYDAY = frozenset(_bare(polish(phrase).spanish) for phrase in everyday())


def _split(phrase: Phrase) -> str:
    """Where a sentence belongs, whoever draws it and whenever."""
    text = _bare(phrase.spanish)
    share = zlib.crc32(text.encode()) % SHARES
    return "train" if text in _EVERYDAY or share > 1 else ("valid", "test")[share]


def _pair(phrase: Phrase) -> Pair:
    return Pair(_text(phrase.english), _text(phrase.spanish), tuple(sorted(phrase.links)))
