"""One thread per model: it gathers requests that can be done together, does them, and lets go of what nobody awaits.

Requests that arrive within a few milliseconds of each other, or while the model is busy, become one batch if they have
the same key: the same verb with the same options. Padding and company never change a result, so each gets what it
would have got alone. If a batch fails, its requests are done one by one, and only the bad one fails.

A client that has left, or has waited too long, need not be served: before every layer the model asks whether somebody
still waits, and stops if nobody does.
"""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.explorer.meters import Meters

GATHERING = 0.004  # seconds the first request of a batch waits for others
BATCH_COST = 8192  # tokens of a batch; changes speed, never results


class Abandoned(Exception):
    """Nobody waits any more."""


@dataclass(eq=False)
class Work:
    """Items, and how any number of such items become results, one for each."""

    call: Callable[[list[Any]], list[Any]]
    items: list[Any]
    cost: int = 1  # tokens
    key: Hashable = None  # whatever has the same may be done together; None is done alone
    verb: str = ""
    future: "Future[list[Any]]" = field(default_factory=Future)
    abandoned: bool = False


class Worker:
    """The only one who runs a model."""

    def __init__(self, name: str, model: nn.Module, meters: Meters):
        self.name, self.meters = name, meters
        self._waiting: list[Work] = []
        self._doing: list[Work] = []
        self._changed = threading.Condition()
        self._closing = False
        for module in model.modules():
            if not any(module.children()):
                module.register_forward_pre_hook(self._still_awaited)
        meters.queue_lengths[name] = lambda: len(self._waiting)
        self._thread = threading.Thread(target=self._run, name=f"regard-{name}", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> "Future[list[Any]]":
        with self._changed:
            self._waiting.append(work)
            self._changed.notify()
        return work.future

    def close(self) -> None:
        """End when everything that waits is done."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _run(self) -> None:
        while batch := self._next():
            awaited = [work for work in batch if work.future.set_running_or_notify_cancel()]
            if awaited:
                self._do(awaited)

    def _next(self) -> list[Work]:
        """The work that came first, and what can be done together with it; nothing when it is time to end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if self._waiting and self._waiting[0].key is not None:
                    self._changed.wait_for(self._is_full, timeout=GATHERING)
                self._waiting = [work for work in self._waiting if not work.abandoned]
                if self._waiting or self._closing:
                    break
            batch = self._companions()
            self._waiting = [work for work in self._waiting if work not in batch]
            return batch

    def _is_full(self) -> bool:
        return self._closing or sum(work.cost for work in self._companions(most=2 * BATCH_COST)) >= BATCH_COST

    def _companions(self, most: int = BATCH_COST) -> list[Work]:
        batch, cost = self._waiting[:1], sum(work.cost for work in self._waiting[:1])
        for work in self._waiting[1:]:
            if work.key is not None and work.key == batch[0].key and cost + work.cost <= most:
                batch.append(work)
                cost += work.cost
        return batch

    def _do(self, batch: list[Work]) -> None:
        self.meters.batches(self.name, batch[0].verb, len(batch))
        try:
            results = self._called(batch)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, Abandoned):
                for work in batch:
                    work.future.set_exception(error)
                return
            for work in batch:
                self._do([work])
        else:
            for work in batch:
                work.future.set_result(results[: len(work.items)])
                results = results[len(work.items) :]

    def _called(self, batch: list[Work]) -> list[Any]:
        self._doing = batch
        try:
            return batch[0].call([item for work in batch for item in work.items])
        finally:
            self._doing = []

    def _still_awaited(self, module: nn.Module, inputs: Any) -> None:
        is_ours = threading.current_thread() is self._thread
        if is_ours and self._doing and all(work.abandoned for work in self._doing):
            raise Abandoned
