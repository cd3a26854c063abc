"""Batches side by side.

A step of decoding multiplies a few hundred rows at most. Cut in two, each half is so small that two threads spend much
of their time waiting for each other, a hundred times a step. Two threads that each have a batch of their own meet only
at the end. They share the weights, and Python itself is out of the way while torch computes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


def worker_count(device: torch.device, wanted: int | None = None) -> int:
    """As many as are wanted; else one per thread that torch may use on a CPU, and one on any other device."""
    if wanted is not None:
        return wanted
    return torch.get_num_threads() if device.type == "cpu" else 1


def side_by_side(work: Callable[[Part], Result], parts: Sequence[Part], workers: int) -> Iterator[tuple[Part, Result]]:
    """Each part with its result, as they come; every worker has its share of torch's threads."""
    workers = min(workers, len(parts))
    if workers < 2:
        yield from ((part, work(part)) for part in parts)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(max(1, threads // workers),))
    try:
        owners = {pool.submit(work, part): part for part in parts}
        yield from ((owners[done], done.result()) for done in as_completed(owners))
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, or Ctrl-C, what has not begun never does
        torch.set_num_threads(threads)
