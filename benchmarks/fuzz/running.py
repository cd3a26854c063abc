"""One spoilt file after the other: how a case is made, run and judged, and how crashes and hangs are caught.

A case is the name of a loader, a seed and a number; nothing else decides it. Cases run in processes of their own, with
limits that the operating system keeps: of computing time for each case, of waiting, and of memory beyond what the
process had when it began. A process that dies leaves behind the number of the case it died of, and the next one goes on
after it.
"""

import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import regard
from fuzz.mutations import spoilt
from regard.errors import RegardError

Files = Mapping[str, bytes]

LONGEST_MESSAGE = 600
SECONDS = 5  # of computing, for a case
WAIT = 300  # seconds of the clock, for a case that computes nothing
MEMORY = 1 << 30  # bytes more than at the beginning
ROOM = 1 << 28  # for threads and allocators, which reserve more than they use
DEATHS = 40  # after which a loader is given up


@dataclass(frozen=True)
class Loader:
    """Something that reads files: whole examples of them, and the call that reads."""

    name: str
    about: str
    examples: Callable[[], Sequence[Files]]
    load: Callable[[Path], object]
    spoils: tuple[str, ...] = ("",)  # endings of the names of the files that are spoilt; the others stay whole


@dataclass
class Counts:
    """What became of the cases."""

    loaded: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)


class Bench:
    """A loader with its examples laid out in folders, of which one file at a time is spoilt."""

    def __init__(self, loader: Loader, place: Path):
        self.loader = loader
        self.examples = [files for files in loader.examples() if any(name.endswith(loader.spoils) for name in files)]
        self.folders = [place / str(number) for number in range(len(self.examples))]
        for folder, files in zip(self.folders, self.examples, strict=True):
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)

    def check_examples(self) -> None:
        """An example that does not load as it is would prove nothing."""
        for folder in self.folders:
            self.loader.load(folder)

    def case(self, seed: int, number: int, ready: Callable[[], object] = lambda: None) -> str | None:
        """Run one case: None if the file was loaded, "" if it was refused as it should be, else what went wrong.

        `ready` is called when the file is spoilt and the loading begins.
        """
        draw = Random(f"{self.loader.name} {seed} {number}")
        example = draw.randrange(len(self.examples))
        files, folder = self.examples[example], self.folders[example]
        name = draw.choice([name for name in files if name.endswith(self.loader.spoils)])
        path = folder / name
        try:
            self._spoil(draw, path, name, files)
            ready()
            return judged(self.loader.load, folder)
        finally:
            if path.is_dir():
                shutil.rmtree(path)
            path.write_bytes(files[name])

    @staticmethod
    def _spoil(draw: Random, path: Path, name: str, files: Files) -> None:
        way = draw.randrange(100)
        if way == 0:
            path.unlink()
        elif way == 1:
            path.unlink()
            path.mkdir()
        elif way == 2:
            path.write_bytes(files[draw.choice(list(files))])
        else:
            path.write_bytes(spoilt(draw, name, files[name]))


def judged(load: Callable[[Path], object], folder: Path) -> str | None:
    """Loading must end well, or in one typed error of one line."""
    try:
        load(folder)
    except RegardError as error:
        return fault_of(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic inside a library is not even an Exception
        return f"{type(error).__name__}{place_of(error)}: {' '.join(str(error).split())[:200]}"
    return None


PACKAGE = Path(regard.__file__).parent


def place_of(error: BaseException) -> str:
    """The last line of the library that an error went through, such as " at data/images.py:7"; "" if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(PACKAGE):
            return f" at {path.relative_to(PACKAGE).as_posix()}:{frame.lineno}"
    return ""


def fault_of(error: RegardError) -> str:
    """What is wrong with a refusal; "" if nothing is."""
    message = str(error)
    if len(message.splitlines()) != 1 or not message.strip():
        return f"a message of {len(message.splitlines())} lines: {message[:200]!r}"
    if len(message) >= LONGEST_MESSAGE:
        return f"a message of {len(message)} characters: {message[:200]!r}"
    cause: BaseException | None = error
    while cause is not None:
        told = str(cause).lower()
        if isinstance(cause, MemoryError) or "allocate memory" in told or "out of memory" in told:
            return f"refused only when memory was short: {message[:200]!r}"
        cause = cause.__cause__ or cause.__context__
    return ""


# In a process of its own.


class Journal:
    """What a process has done so far, where it can be read after its death."""

    FORM = struct.Struct("<6q")  # case, loaded, refused, faulty, slowest case, its microseconds

    def __init__(self, path: Path):
        if not path.exists():
            path.write_bytes(self.FORM.pack(-1, 0, 0, 0, -1, 0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.FORM.size)

    def read(self) -> list[int]:
        return list(self.FORM.unpack(self._map[:]))

    def write(self, values: Sequence[int]) -> None:
        self._map[:] = self.FORM.pack(*values)


def work(loader: Loader, seed: int, first: int, last: int, journal: Path, seconds: int = SECONDS) -> None:
    """Run cases; each fault is a line of the output. Dies of a crash or a hang."""
    log = Journal(journal)
    os.fsync = lambda file: None  # what is written here need not survive
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(loader, Path(place))
        bench.check_examples()
        limit_memory()
        for number in range(first, last):
            _, loaded, refused, faulty, slowest, longest = log.read()
            log.write((number, loaded, refused, faulty, slowest, longest))
            clock = Clock(seconds)
            found = bench.case(seed, number, clock.start)
            took = int(clock.seconds() * 1e6)
            slowest, longest = (number, took) if took > longest else (slowest, longest)
            counted = (loaded + (found is None), refused + (found == ""), faulty + bool(found))
            log.write((number, *counted, slowest, longest))
            if found:
                print(f"{number}\t{found}", flush=True)
        signal.alarm(0)


class Clock:
    """The operating system ends a process that computes, or waits, for too long after the start. Until then, while a
    file is being spoilt, nothing is limited."""

    def __init__(self, limit: int):
        self.limit, self.started = limit, 0.0
        self._allow(None)
        signal.alarm(0)

    def start(self) -> None:
        self.started = time.process_time()
        self._allow(int(self.started) + self.limit + 1)
        signal.alarm(WAIT)

    def _allow(self, seconds: int | None) -> None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (hard if seconds is None else seconds, hard))

    def seconds(self) -> float:
        return time.process_time() - self.started


def limit_memory() -> None:
    """Where it is known how much there is now (Linux)."""
    import resource

    statm = Path("/proc/self/statm")
    if statm.exists():
        now = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY + ROOM, hard))


# The one who starts those processes.

REASONS = {
    signal.SIGXCPU: "computed for more than the time allowed",
    signal.SIGALRM: f"stood still for {WAIT} seconds",
    signal.SIGSEGV: "crashed (segmentation fault)",
    signal.SIGABRT: "crashed (abort)",
    signal.SIGKILL: "was killed, perhaps for its memory",
}


@dataclass(frozen=True)
class Part:
    """Cases `first` up to `last` of a loader, run by one process after the other."""

    command: Sequence[str]  # what starts a process: it gets the first, the last and the journal as arguments
    first: int
    last: int

    def run(self, tell: Callable[[str], object]) -> tuple[Counts, tuple[int, float]]:
        """What became of them, and the slowest with its seconds."""
        counts, slowest, start = Counts(), (-1, 0.0), self.first
        with tempfile.TemporaryDirectory() as place:
            for attempt in range(DEATHS):
                path = Path(place) / str(attempt)
                journal = Journal(path)
                status, complaint = self._process(start, path, counts, tell)
                number, loaded, refused, _, slow, took = journal.read()
                counts.loaded += loaded
                counts.refused += refused
                slowest = max(slowest, (slow, took / 1e6), key=lambda known: known[1])
                if status == 0:
                    return counts, slowest
                if number < 0:
                    raise SystemExit(f"{' '.join(self.command)} does not begin: {complaint}")
                reason = REASONS.get(-status, f"ended with {status}: {complaint}")  # type: ignore[call-overload]
                counts.faults.append(f"{number}\tthe process {reason}")
                tell(counts.faults[-1])
                start = number + 1
        counts.faults.append(f"{start}\tgiven up after {DEATHS} dead processes")
        return counts, slowest

    def _process(self, start: int, journal: Path, counts: Counts, tell: Callable[[str], object]) -> tuple[int, str]:
        command = [*self.command, str(start), str(self.last), str(journal)]
        env = {**os.environ, **QUIET}
        with tempfile.TemporaryFile() as complaints:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True, env=env) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    counts.faults.append(line.rstrip("\n"))
                    tell(counts.faults[-1])
            complaints.seek(0)
            lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
            return process.returncode, lines[-1][:200] if lines else ""


# One thread each: what is measured is the computing of one case.
QUIET = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONWARNINGS": "ignore",
}


def parts(command: Sequence[str], cases: int, jobs: int) -> Iterator[Part]:
    size = -(-cases // jobs)
    for first in range(0, cases, size):
        yield Part(command, first, min(first + size, cases))


def this_python() -> str:
    return sys.executable
