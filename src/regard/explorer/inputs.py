"""Texts, token ids and pictures: whatever a request brings is counted and checked here before a model sees it."""

from collections.abc import Sequence
from typing import Any

from regard.explorer.limits import CHARACTERS_PER_TOKEN, PIXELS, Limits
from regard.explorer.reading import picture
from regard.explorer.refusals import Refusal
from regard.tasks.algorithm_runner import AlgorithmRunner

PIXELS_PER_TOKEN = 4096  # what a picture costs
PICTURE_COST = 256  # at least


def reads_pictures(loaded: Any) -> bool:
    return hasattr(loaded, "preprocessing")


def texts(
    loaded: Any, given: Sequence[str], limits: Limits, place: str = "texts", empty: bool = False, beside: int = 0
) -> tuple[list[str], int]:
    """The texts and how many tokens they have; too many are refused, and so are texts without a character.

    `beside` are the tokens that were counted already."""
    if not empty:
        for number, text in enumerate(given):
            if not text.strip():
                raise Refusal(422, f"{place}.{number} is empty; leave it out, or say something")
    characters, most = sum(map(len, given)), limits.tokens * CHARACTERS_PER_TOKEN
    if characters > most:
        raise Refusal(413, f"{place} have {characters:,} characters, but at most {most:,} are read; send less at once")
    count = sum(tokens_of(loaded, text) for text in given)
    check_count(count + beside, limits, place)
    return list(given), count


def tokens_of(loaded: Any, text: str) -> int:
    """What a text costs: its tokens, or the steps of the episode that it describes."""
    if isinstance(loaded, AlgorithmRunner):
        return loaded.algorithm.steps(loaded.length(text))
    return max(1, len(loaded.tokenizer.encode(text))) if hasattr(loaded, "tokenizer") else 1


def token_ids(loaded: Any, given: Sequence[int], limits: Limits, place: str) -> int:
    """How many token ids these are; ids that the vocabulary does not have are refused, and so are too many."""
    check_count(len(given), limits, place)
    vocabulary = len(getattr(loaded, "tokenizer", ()))
    for number, token in enumerate(given):
        if not 0 <= token < vocabulary:
            raise Refusal(422, f"{place}.{number} is {token}, but the vocabulary has {vocabulary:,} tokens, from 0")
    return len(given)


def check_count(count: int, limits: Limits, place: str) -> None:
    if count > limits.tokens:
        raise Refusal(413, f"{place} have {count:,} tokens, but at most {limits.tokens:,} are read; send less at once")


def check_made(count: int | None, limits: Limits, place: str) -> None:
    """Refuse to make more tokens of one text than may be read."""
    if count is not None and count > limits.tokens:
        raise Refusal(413, f"{place} is {count} but at most {limits.tokens} are made here")


def pictures(given: Sequence[str], place: str = "images") -> tuple[list[bytes], int]:
    """The pictures as files, and what they cost; their pixels are decoded only when it is their turn."""
    files = [picture(encoded, f"{place}.{number}") for number, encoded in enumerate(given)]
    pixels = sum(size for _, size in files)
    if pixels > PIXELS:
        raise Refusal(413, f"{place} have {pixels:,} pixels, but at most {PIXELS:,} are read; make them smaller")
    return [content for content, _ in files], sum(max(PICTURE_COST, size // PIXELS_PER_TOKEN) for _, size in files)


def same_number(firsts: Sequence[Any], seconds: Sequence[Any]) -> Sequence[Any]:
    if len(firsts) != len(seconds):
        raise Refusal(422, f"there are {len(firsts)} texts but {len(seconds)} second_texts; give as many of each")
    return seconds
