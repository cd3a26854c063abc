"""What glibc does with large blocks of memory that are free again. Other C libraries keep their own ways.

A training allocates the same activations in every step, and a model that reads text after text does too: given back to
the kernel, they come again zeroed page by page a moment later, a tenth to a third of the time on a CPU. A server has
now a long text and then short ones: what it holds on to between small blocks that are still in use, it never finds a
use for.
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
NEVER_REACHED = 1 << 30
USUAL_TRIM = 128 << 10
LARGE = 4 << 20  # bytes; the activations of short texts are smaller


def keep_freed_memory() -> bool:
    """Whether the C library took the advice."""
    return _advise(M_MMAP_THRESHOLD, NEVER_REACHED) and _advise(M_TRIM_THRESHOLD, NEVER_REACHED)


def return_freed_memory() -> bool:
    """Each large block by itself; whether the C library took the advice."""
    return _advise(M_MMAP_THRESHOLD, LARGE) and _advise(M_TRIM_THRESHOLD, USUAL_TRIM)


def _advise(parameter: int, value: int) -> bool:
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).mallopt(parameter, value))
