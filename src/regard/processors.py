"""How many processors this process may use."""

import os
from functools import cache


@cache
def available_cpus() -> int:
    """At least 1."""
    return len(os.sched_getaffinity(0))
