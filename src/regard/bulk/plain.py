"""The plain engine: one part after the other, in this process, on all its threads."""

from collections.abc import Callable, Sequence

from regard.bulk.parts import Done, Part
from regard.bulk.work import Job, Worker


def do_parts(job: Job, parts: Sequence[Part], done: Callable[[Done], None]) -> int:
    """`done` is told of each part. None is ever begun again."""
    worker = Worker(job)
    for part in parts:
        done(worker.do(part))
    return 0
