"""The two ways a user's request can fail, each with its exit code.

Every message is one line that names the value, the place and the remedy. The command line prints it without a
traceback; in Python these are ordinary exceptions. A message may repeat what a stranger's file says, but that file
decides neither how long it is nor where its line ends: it is cut, and `shortened` and `told` cut its parts.
"""

import reprlib
from collections.abc import Iterable

LONGEST = 590  # characters of a message


class RegardError(Exception):
    """Something a user can understand and mend went wrong (exit code 1)."""

    exit_code = 1

    def __init__(self, message: object = ""):
        text = " ".join(str(message).splitlines())
        # Who and where stand at the beginning, the remedy at the end.
        super().__init__(text if len(text) <= LONGEST else f"{text[: LONGEST - 200]} ... {text[-190:]}")


class UsageError(RegardError):
    """The request itself was wrong: an unknown recipe, key, file or argument (exit code 2)."""

    exit_code = 2


class _Short(reprlib.Repr):
    def __init__(self, most: int):
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict, self.maxset = 3, 4, 4, 4, 4
        self.maxstring = self.maxother = most

    def repr_int(self, number: int, level: int) -> str:
        huge = number.bit_length() > 200  # Python refuses to write the largest ones out
        return f"a whole number of {number.bit_length()} bits" if huge else repr(number)


def shortened(value: object, most: int = 60) -> str:
    """A value for a message: one line, however long, deep or odd it is."""
    return _cut(_Short(most).repr(value), most)


def told(error: BaseException, most: int = 200) -> str:
    """What another library said of its trouble, in one line."""
    return _cut(" ".join(str(error).split()) or type(error).__name__, most)


def listed(names: Iterable[object], most: int = 6) -> str:
    """The first few of them, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return (", ".join(shortened(name, 40) for name in known[:most]) or "none") + more


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# How torch says it: CUDA, MPS, and the allocators of the CPU.
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    said = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in NO_MEMORY)
    )
