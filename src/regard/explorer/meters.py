"""Counts for whoever watches the server, in the text format of Prometheus."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64)
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How often which values came, by label."""

    def __init__(self, bounds: tuple[float, ...]):
        self.bounds = bounds
        self.within: Counter[tuple[Labels, float]] = Counter()
        self.counts: Counter[Labels] = Counter()
        self.totals: dict[Labels, float] = {}

    def add(self, labels: Labels, value: float) -> None:
        self.counts[labels] += 1
        self.totals[labels] = self.totals.get(labels, 0.0) + value
        for bound in self.bounds:
            if value <= bound:
                self.within[labels, bound] += 1

    def lines(self, name: str) -> Iterator[str]:
        for labels, count in sorted(self.counts.items()):
            for bound in self.bounds:
                yield _line(f"{name}_bucket", (*labels, ("le", f"{bound:g}")), self.within[labels, bound])
            yield _line(f"{name}_bucket", (*labels, ("le", "+Inf")), count)
            yield _line(f"{name}_sum", labels, self.totals[labels])
            yield _line(f"{name}_count", labels, count)


class Meters:
    """Everything that is counted; any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._seconds = Histogram(SECONDS)
        self._batch_sizes = Histogram(SIZES)
        self.queue_lengths: dict[str, Callable[[], int]] = {}
        self.running: Callable[[], int] = lambda: 0

    def request(self, verb: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[(("verb", verb), ("status", str(status)))] += 1
            self._seconds.add((("verb", verb),), seconds)

    def batches(self, model: str, verb: str, size: int) -> None:
        with self._lock:
            self._batch_sizes.add((("model", model), ("verb", verb)), size)

    def text(self) -> str:
        with self._lock:
            return "\n".join([*self._told(), ""])

    def _told(self) -> Iterator[str]:
        yield from _head("regard_requests_total", "counter", "Requests that were answered.")
        yield from (_line("regard_requests_total", labels, n) for labels, n in sorted(self._requests.items()))
        yield from _head("regard_request_seconds", "histogram", "Time from a request to the end of its answer.")
        yield from self._seconds.lines("regard_request_seconds")
        yield from _head("regard_batch_requests", "histogram", "Requests that a model worked on together.")
        yield from self._batch_sizes.lines("regard_batch_requests")
        yield from _head("regard_requests_running", "gauge", "Requests that are worked on or wait.")
        yield _line("regard_requests_running", (), self.running())
        yield from _head("regard_queue_length", "gauge", "Requests that wait for a model.")
        for model, length in self.queue_lengths.items():
            yield _line("regard_queue_length", (("model", model),), length())
        if (memory := resident_bytes()) is not None:
            yield from _head("process_resident_memory_bytes", "gauge", "Memory of the server.")
            yield _line("process_resident_memory_bytes", (), memory)


def resident_bytes(process: str = "self") -> int | None:
    """The memory of a process, where the system says it."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text("ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{key}="{escaped(text)}"' for key, text in labels)
    return f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def parsed(text: str) -> Mapping[str, float]:
    """The numbers of such a text by name and labels."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
