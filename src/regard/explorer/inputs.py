"""Texts and pictures, measured before a model sees them."""

from collections.abc import Sequence
from typing import Any

from regard.explorer.limits import CHARACTERS_PER_TOKEN, PIXELS, Limits
from regard.explorer.reading import picture
from regard.explorer.refusals import Refusal

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
    count = sum(max(1, len(loaded.tokenizer.encode(text))) for text in given)
    if count + beside > limits.tokens:
        raise Refusal(
            413, f"{place} have {count + beside:,} tokens, but at most {limits.tokens:,} are read; send less at once"
        )
    return list(given), count


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
