"""Memory that a training step frees and the next one takes again."""

import ctypes
import os
import platform


def keep_freed_memory() -> None:
    """Lets glibc keep what a training step frees for the next step.

    Giving it back to the kernel and asking for it again page by page takes a fifth of a step on
    a CPU. Other systems and allocators, and a choice of the user's, are left alone.
    """
    trim_threshold, mmap_threshold = -1, -3  # malloc.h
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 32 << 20)  # the largest that it takes
    libc.mallopt(trim_threshold, 2**31 - 1)
