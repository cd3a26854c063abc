"""What a verb reads: lines, texts of tables, sentences, pictures; and in which pieces."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from regard.cli.options import complain
from regard.errors import RegardError

LINES_AT_ONCE = 4096  # read together; changes speed, never results
TEXTS_AT_ONCE = 256
Item = TypeVar("Item")


def in_pieces(items: Iterable[Item], at_once: int, typed: bool = False) -> Iterator[list[tuple[int, Item]]]:
    """Items with their numbers. Someone who types wants an answer to each; a file is quicker in larger pieces."""
    numbered = enumerate(items)
    while piece := list(islice(numbered, 1 if typed and sys.stdin.isatty() else at_once)):
        yield piece
        sys.stdout.flush()  # what is said of this piece is seen before the next is worked on


def lines(file: str | None, longest: int | None = None) -> Iterator[str]:
    """Of a file or standard input; one that is too long is said and left empty."""
    from regard.data.parallel import MAX_LINE_CHARACTERS, read_lines, standard_input_lines

    longest = longest or MAX_LINE_CHARACTERS
    for number, line in enumerate(read_lines(file, longest) if file else standard_input_lines(longest), 1):
        if line is None:
            complain(f"line {number} of the input is too long and was left empty")
        yield line or ""


def documents(file: str | None, text_column: str, second_column: str | None = None, pairs: bool = False) -> Any:
    """The texts to read, streamed, or the pairs."""
    from regard.data.frames import as_pair
    from regard.data.labelled import FORMS, LONGEST_TEXT, read_text_pairs, read_texts

    if file is not None and file.lower().removesuffix(".gz").endswith(FORMS):
        if second_column is not None:
            return read_text_pairs(file, text_column, second_column)
        return read_texts(file, text_column)
    texts = lines(file, LONGEST_TEXT)
    return map(as_pair, texts) if pairs else texts


class UnreadablePictures:
    """Names each picture that cannot be read on standard error, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: RegardError) -> None:
        self.count += 1
        complain(str(error))

    def report(self, total: int) -> None:
        """State how many of all pictures could not be read; if none could, that is an error."""
        if self.count == total:
            raise RegardError(f"none of the {total} pictures could be read")
        if self.count:
            complain(f"{self.count} of the {total} pictures could not be read")
