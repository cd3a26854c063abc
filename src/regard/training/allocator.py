"""Keep memory between training steps.

Activations of every step are allocated anew. glibc gives large blocks back to the kernel as soon as they are free
and gets them again, zeroed page by page, a moment later: up to a third of a step on a CPU. Two thresholds tell it to
keep them. Other C libraries keep their own ways.
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
LARGE = 1 << 30


def keep_freed_memory() -> bool:
    """Whether the C library took the advice."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(M_MMAP_THRESHOLD, LARGE)) and bool(library.mallopt(M_TRIM_THRESHOLD, LARGE))
