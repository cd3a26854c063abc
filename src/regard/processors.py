"""How many processors this process may use: the machine's, those it is bound to, and the quota of its container.

A container with a quota of two processors runs on all of the machine's, but is stopped for the rest of each period once
it has used its share: threads above the quota only make it wait. Linux states the quota in the files of control groups:

    version 2   cpu.max: "200000 100000" or "max 100000", microseconds of processor time and of the period
    version 1   cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 is none

Every group on the way from the process's own to the root may have a quota, and the smallest one counts.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


@cache
def available_cpus(groups: Path = GROUPS, mounted: Path = MOUNTED) -> int:
    """Return the number of processors this process may use, at least 1.

    groups: the file that names the control groups of the process
    mounted: the folder where the control groups are mounted
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([usable, *_quotas(groups, mounted)]))


def limit_threads() -> None:
    """Lower torch's number of threads to `available_cpus()`; a number set by OMP_NUM_THREADS is left as it is."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and available_cpus() < torch.get_num_threads():
        torch.set_num_threads(available_cpus())


def _quotas(groups: Path, mounted: Path) -> Iterator[int]:
    """The quotas of all groups of the process in processors, rounded up."""
    for line in (_read(groups) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2, which may be mounted beside version 1
            for folder in (*_upwards(mounted, path), *_upwards(mounted / "unified", path)):
                yield from _processors(*(_read(folder / "cpu.max") or "").split())
        elif "cpu" in controllers.split(","):
            for folder in (*_upwards(mounted / "cpu", path), *_upwards(mounted / controllers, path)):
                yield from _processors(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """The folders of a group and of all groups above it; inside a container, its own group may be the root."""
    names = [name for name in path.split("/") if name]
    if ".." in names:  # the process is in a group outside of what is mounted here
        names = []
    for count in range(len(names), -1, -1):
        yield root.joinpath(*names[:count])


def _processors(*quota_and_period: str | None) -> Iterator[int]:
    """The quota as a number of processors; nothing if there is none, or if it is malformed."""
    try:
        quota, period = (int(value or "") for value in quota_and_period)
    except ValueError:
        return
    if quota > 0 and period > 0:
        yield -(-quota // period)


def _read(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None
