"""Settings of the process: its memory allocator, its threads and its garbage collector."""

import ctypes
import gc
import os
import platform


def prepare_process() -> None:
    """What every command does before PyTorch is imported."""
    keep_freed_memory()
    let_threads_sleep()
    collect_seldom()


def keep_freed_memory() -> None:
    """Tells glibc to keep freed memory instead of returning it to the kernel.

    Returning it after every training step and obtaining it again page by page takes a fifth of a
    step on a CPU. Does nothing with other C libraries, or if the user sets a MALLOC_ variable.
    """
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 32 << 20)  # bytes; the largest valid value
    libc.mallopt(trim_threshold, 2**31 - 1)


def let_threads_sleep() -> None:
    """Lets PyTorch's threads sleep while they wait, on a busy machine; call it before its import.

    By default they spin. Beside other programs that takes the processor from the thread that is
    waited for, and a training takes three times as long; alone on the machine, waking costs a tenth
    of the time. Does nothing if the user says how to wait.
    """
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) / 2
    if busy and "GOMP_SPINCOUNT" not in os.environ:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def collect_seldom() -> None:
    """Lets Python look for garbage in cycles after 100,000 new objects instead of 700.

    The import of PyTorch, and beliefs, answers and statements, are millions of objects that stay.
    To look at them again and again takes a tenth of the time of a diagnosis, and finds nothing.
    """
    gc.set_threshold(100_000, 50, 100)
