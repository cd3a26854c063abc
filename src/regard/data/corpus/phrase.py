"""Phrases that exist in English and Spanish at once, and the one way to put them together.

A `Phrase` holds the words of both languages and the links between them. `weave` builds a larger phrase from named
smaller ones: one pattern gives their order in English, another their order in Spanish, and *ties* link what one
language says and the other leaves out. So the gold links of a sentence are right by construction: nobody ever counts
a position.

    weave("subject helper not main", "not main", "subject-main helper-not", subject=i, helper=do, ...)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise


@dataclass(frozen=True)
class Phrase:
    """Words in both languages and the links (English position, Spanish position) between them."""

    english: tuple[str, ...] = ()
    spanish: tuple[str, ...] = ()
    links: frozenset[tuple[int, int]] = frozenset()


EMPTY = Phrase()
FUSED = {("de", "el"): "del", ("a", "el"): "al"}
SILENT_VOWELS = ("uni", "use", "eu", "one")  # written with a vowel, spoken with a consonant: a university


@cache
def word(english: str, spanish: str) -> Phrase:
    """Words that translate each other as a whole: every English word is linked to every Spanish one."""
    left, right = tuple(english.split()), tuple(spanish.split())
    return Phrase(left, right, frozenset((i, j) for i in range(len(left)) for j in range(len(right))))


@cache
def words(*twins: str) -> Phrase:
    """A phrase spelled word by word, as "english=spanish" with _ for a space: words("on=el", "monday=lunes").

    An English word may take several Spanish ones ("tonight=esta_noche") and the reverse ("last_night=anoche").
    """
    return join(*(word(*twin.replace("_", " ").split("=")) for twin in twins))


def join(*parts: Phrase) -> Phrase:
    """The parts one after another, in the same order in both languages."""
    english: list[str] = []
    spanish: list[str] = []
    links: list[tuple[int, int]] = []
    for part in parts:
        links += ((len(english) + i, len(spanish) + j) for i, j in part.links)
        english += part.english
        spanish += part.spanish
    return Phrase(tuple(english), tuple(spanish), frozenset(links))


@cache
def _pattern(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def weave(english: str, spanish: str, ties: str = "", **parts: Phrase) -> Phrase:
    """Put named parts together, in the order of one pattern in English and of another in Spanish.

    A name without a part is an empty place. A tie "a-b" links every English word of part a to every Spanish word of
    part b, also when each part stands in one language only.
    """
    left, left_at = _lay(_pattern(english), {name: part.english for name, part in parts.items()})
    right, right_at = _lay(_pattern(spanish), {name: part.spanish for name, part in parts.items()})
    links = {
        (left_at[name] + i, right_at[name] + j)
        for name, part in parts.items()
        if name in left_at and name in right_at
        for i, j in part.links
    }
    for tie in _pattern(ties):
        source, target = tie.split("-")
        if source in left_at and target in right_at:
            links |= {
                (left_at[source] + i, right_at[target] + j)
                for i in range(len(parts[source].english))
                for j in range(len(parts[target].spanish))
            }
    return Phrase(left, right, frozenset(links))


def _lay(pattern: Iterable[str], sides: dict[str, tuple[str, ...]]) -> tuple[tuple[str, ...], dict[str, int]]:
    """One language's words in the order of its pattern, and where each part begins."""
    laid: list[str] = []
    begins: dict[str, int] = {}
    for name in pattern:
        if name in sides:
            begins[name] = len(laid)
            laid += sides[name]
    return tuple(laid), begins


def polish(phrase: Phrase) -> Phrase:
    """Apply what sounds demand of neighbours: a -> an, de el -> del, a el -> al, y -> e before an i."""
    english = list(phrase.english)
    for i, (here, after) in enumerate(pairwise(english)):
        if here == "a" and after[0] in "aeiou" and not after.startswith(SILENT_VOWELS):
            english[i] = "an"
    spanish: list[str] = []
    moved: list[int] = []  # the new position of every old Spanish word
    for token in phrase.spanish:
        if spanish and (spanish[-1], token) in FUSED:
            spanish[-1] = FUSED[spanish[-1], token]
        else:
            if spanish and spanish[-1] == "y" and token.startswith(("i", "hi")):
                spanish[-1] = "e"
            spanish.append(token)
        moved.append(len(spanish) - 1)
    return Phrase(tuple(english), tuple(spanish), frozenset((i, moved[j]) for i, j in phrase.links))
