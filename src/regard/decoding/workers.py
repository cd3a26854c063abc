"""Batches decoded side by side, by processes that have their own copy of the model.

Threads that share a batch wait for each other at every product. Processes with a batch each wait for nobody, but take
seconds to start, and as many times the memory. Which is faster depends on the machine, the model and the search, so on
long inputs both are tried, and the faster one goes on. Whoever decodes a batch, the same is found.
"""

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.decoding.generate import Batch, Found, decode, reading
from regard.errors import RegardError, UsageError
from regard.processors import available_cpus

Item = tuple[int, Batch]  # a batch with its number
Done = Iterator[tuple[int, Found]]
Decode = Callable[[deque[Item], nn.Module], Done]

WORTH = 30.0  # seconds of work ahead that are worth starting processes
EACH = 2  # batches that a side is tried with
BESIDE = 512 << 20  # bytes that a process takes beside its model: torch, and what it computes
PATIENCE = 5  # seconds for a process to end


class Workers:
    """`count` processes that decode with what `make` gives; None: as many as threads, if a trial finds them faster.

    `make` is called in every process, so it is a function of a module, or a partial of one. To be used in a `with`
    block, with which the processes end.
    """

    def __init__(self, make: Callable[[], nn.Module], count: int | None = None):
        if count is not None and count < 1:
            raise UsageError(f"{count} workers were asked for; ask for at least 1")
        threads = min(torch.get_num_threads(), available_cpus())
        self.make, self.undecided = make, count is None
        self.count = threads if count is None else count
        self.threads = max(1, threads // self.count)  # of each
        self.lost = 0  # that died on the way; their batches were done by others
        self._processes: list[_Process] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        for process in self._processes:
            process.end()
        self._processes = []

    def share(self, budget: int, tokens: int) -> int:
        """The tokens of a batch, `budget` at most, when there are so many in all: every process has some."""
        return budget if self.undecided or self.count == 1 else max(1, min(budget, -(-tokens // self.count)))

    def decode(self, batches: Sequence[Batch], model: nn.Module) -> Done:
        """The number of each batch and what was found for it, as they are done. `model` is for this process."""
        waiting = deque(enumerate(batches))
        if self.undecided:
            yield from self._until_decided(waiting, model)
        elif waiting and self.count > 1 and not self._processes and not self.lost:
            self._start()
        yield from self._together(waiting, model)

    def _until_decided(self, waiting: deque[Item], model: nn.Module) -> Done:
        """One batch after the other, until enough is ahead for processes to pay. Then threads, processes and threads
        again take turns with neighbours, whose lengths are alike."""
        if next(model.parameters()).device.type != "cpu" or self.count == 1:
            self.undecided, self.count = False, 1
        while waiting and self.undecided:
            pace = yield from _paced(_first(1, waiting), model, _alone)
            ahead = pace * sum(batch.tokens for _, batch in waiting)
            if ahead < WORTH or len(waiting) < EACH * (self.count + 2):
                continue
            self.undecided = False
            self.count = max(1, min(self.count, room_for(model)))
            if self.count > 1:
                before = yield from _paced(_first(EACH, waiting), model, _alone)
                self._start()
                together = yield from _paced(_first(EACH * self.count, waiting), model, self._together)
                after = yield from _paced(_first(EACH, waiting), model, _alone)
                if together > (before + after) / 2:
                    self.end()
                    self.count = 1

    def _start(self) -> None:
        self._processes = [_Process(self.make, self.threads) for _ in range(self.count)]
        for process in list(self._processes):
            self._answer(process)  # that it is ready

    def _together(self, waiting: deque[Item], model: nn.Module) -> Done:
        """Who is free takes the next batch. That of a process which died (for want of memory, say) goes back to the
        others, and if there is none, to this one."""
        doing: dict[Any, tuple[_Process, Item]] = {}
        free = list(self._processes)
        try:
            while doing or (waiting and free):
                while waiting and free:
                    process, item = free.pop(), waiting.popleft()
                    doing[process.pipe] = process, item
                    process.ask(item[1])
                for pipe in wait(list(doing)):
                    process, item = doing.pop(pipe)
                    found = self._answer(process)
                    if found is None:
                        waiting.appendleft(item)
                    else:
                        free.append(process)
                        yield item[0], found
        except BaseException:  # what the others still answer must not be taken for an answer to something else
            self.end()
            raise
        yield from _alone(waiting, model)

    def _answer(self, process: "_Process") -> Found | None:
        """None: it has died."""
        try:
            return process.answer()
        except (EOFError, OSError):
            process.end()
            self._processes.remove(process)
            self.lost += 1
            return None


class _Process:
    """One that has the model, and is asked through a pipe."""

    def __init__(self, make: Callable[[], nn.Module], threads: int):
        fresh = multiprocessing.get_context("spawn")  # a fork would share locks of threads that it does not have
        self.pipe, theirs = fresh.Pipe()
        self.process = fresh.Process(target=_work, args=(theirs, make, threads), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, batch: Batch) -> None:
        with suppress(OSError):  # if it has died, its answer will tell
            self.pipe.send(batch)

    def answer(self) -> Found:
        answer = self.pipe.recv()
        if isinstance(answer, BaseException):
            raise answer
        found: Found = answer
        return found

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join(PATIENCE)


def _work(pipe: Connection, make: Callable[[], nn.Module], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks; without it, the pipe ends
    torch.set_num_threads(threads)
    try:
        model = make()
        pipe.send([])  # ready
        with reading(model):
            while True:
                pipe.send(decode(model, pipe.recv()))
    except EOFError:  # nobody asks any more
        pass
    except RegardError as error:
        pipe.send(error)
    except Exception as error:  # of any kind, perhaps one that cannot be sent
        pipe.send(RuntimeError(f"a worker failed: {type(error).__name__}: {error}"))


def _alone(waiting: deque[Item], model: nn.Module) -> Done:
    while waiting:
        number, batch = waiting.popleft()
        yield number, decode(model, batch)


def _paced(some: deque[Item], model: nn.Module, how: Decode) -> Generator[tuple[int, Found], None, float]:
    """The same, and in the end the seconds that it took per token."""
    tokens, started = sum(batch.tokens for _, batch in some), time.perf_counter()
    yield from how(some, model)
    return (time.perf_counter() - started) / max(1, tokens)


def _first(count: int, waiting: deque[Item]) -> deque[Item]:
    return deque(waiting.popleft() for _ in range(count))


def room_for(model: nn.Module) -> int:
    """How many processes half of the memory that is free has room for: each with its weights, and these once more in
    the order in which they are multiplied (regard.layers.packed)."""
    weights = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return free_memory() // 2 // (2 * weights + BESIDE)


def free_memory() -> int:
    """Bytes; those that only cache files count as free where the system tells them."""
    told = Path("/proc/meminfo")
    if told.exists():
        for line in told.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") // 2 * os.sysconf("SC_PAGE_SIZE")
