"""One input of a coverage-guided fuzzer: which file it stands for, and what became of loading it.

An input is two bytes that choose one file of the examples of some loaders, followed by the content of that file. The
other files of the example stay as they are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz.mutations import spoilt
from fuzz.running import Bench, Loader, judged

HEAD = 2  # bytes that choose a file


@dataclass(frozen=True)
class Slot:
    """A file of an example that an input may replace."""

    folder: Path
    name: str
    content: bytes
    load: Callable[[Path], object]


@dataclass
class Target:
    """Readers that are fuzzed together, and the counts of what became of their inputs."""

    slots: list[Slot]
    loaded: int = 0
    refused: int = 0
    faults: dict[str, str] = field(default_factory=dict)  # by the kind of the error and the line that raised it

    @classmethod
    def of(cls, loaders: list[Loader], endings: tuple[str, ...], place: Path) -> "Target":
        """All files of the examples of `loaders` whose names have one of the endings, laid out below `place`."""
        slots = []
        for loader in loaders:
            bench = Bench(loader, place / loader.name)
            bench.check_examples()
            for folder, files in zip(bench.folders, bench.examples, strict=True):
                chosen = [name for name in files if name.endswith(endings) and name.endswith(loader.spoils)]
                slots += [Slot(folder, name, files[name], loader.load) for name in chosen]
        return cls(slots)

    def seeds(self) -> Iterator[bytes]:
        """The inputs that stand for the examples as they are."""
        for number, slot in enumerate(self.slots):
            yield number.to_bytes(HEAD, "little") + slot.content

    def slot(self, given: bytes) -> Slot:
        return self.slots[int.from_bytes(given[:HEAD], "little") % len(self.slots)]

    def run(self, given: bytes) -> str | None:
        """Loads an input and returns its fault if it has one that was not found before."""
        slot = self.slot(given)
        path = slot.folder / slot.name
        path.write_bytes(given[HEAD:])
        try:
            found = judged(slot.load, slot.folder)
        finally:
            path.write_bytes(slot.content)
        self.loaded += found is None
        self.refused += found == ""
        if not found:
            return None
        kind, _, _ = found.partition(": ")
        is_new = kind not in self.faults
        self.faults.setdefault(kind, f"{slot.name}: {found}")
        return self.faults[kind] if is_new else None

    def mutated(self, given: bytes, seed: int) -> bytes:
        """The input with its file spoilt in a way that knows the file's format, or with another file chosen."""
        draw = Random(seed)
        if draw.random() < 0.05:
            number = draw.randrange(len(self.slots))
            return number.to_bytes(HEAD, "little") + self.slots[number].content
        return given[:HEAD] + spoilt(draw, self.slot(given).name, given[HEAD:])
