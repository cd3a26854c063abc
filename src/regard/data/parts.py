"""Batches that can be cut: into pieces that fit into memory, or into shares for several processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self


class Divisible:
    """A batch whose fields have a row per example, but for those that are `shared` by all rows."""

    shared: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(next(iter(self._rows().values())))

    def part(self, rows: slice) -> Self:
        """The batch of these rows alone."""
        return replace(self, **{name: value[rows] for name, value in self._rows().items()})  # type: ignore[type-var]

    def _rows(self) -> dict[str, Any]:
        named = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in named if name not in self.shared}

    def made(self) -> Any:
        """What a model reads: this."""
        return self


@dataclass(frozen=True)
class Planned(Divisible):
    """A batch that is not read from the disk before its rows are divided: each process reads its own."""

    items: Sequence[Any]  # one per row
    counts: Sequence[int]  # what each adds to what the loss is divided by
    make: Callable[[Sequence[Any]], Any]

    shared = ("make",)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def made(self) -> Any:
        return self.make(self.items)


def share_of(rows: int, number: int, shares: int) -> slice:
    """Which of so many rows belong to the share of this number: in order, and as equal as can be."""
    return slice(rows * number // shares, rows * (number + 1) // shares)
