"""Where a `data` section says the examples of a split are: in a named data set, or in files of one's own."""

from typing import Any

from regard.errors import UsageError

SPLITS = ("train", "valid", "test")


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise UsageError(f"there is no split called {split!r}: choose train, valid or test")


def own_part(section: Any, split: str, what: str = "files") -> Any:
    """What the section itself names for a split; None where it names a data set. Both, or neither, is an error."""
    check_split(split)
    own = getattr(section, split)
    if section.name is not None:
        if own:
            raise UsageError(f"the data section names both the data set {section.name!r} and {what} for {split}")
        return None
    if not own:
        kind = what.removeprefix("a ")
        raise UsageError(f"the data section has no {kind} for the {split} split: give data.{split} or data.name")
    return own


def is_undivided(section: Any) -> bool:
    """Whether there are files for training only, of which the other splits must be taken."""
    return section.name is None and bool(section.train) and not section.valid and not section.test
