"""Settings of the process: its memory allocator, its threads and its garbage collector."""

import ctypes
import gc
import os
import platform
import time
from collections.abc import Set
from pathlib import Path


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

    By default they spin. Beside another program that takes the processor from the thread that is
    waited for: on two cores a training takes twice as long. Alone on the machine, waking takes half
    as long again. Does nothing if the user says how to wait.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys() and busy_share() > 0.25:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def busy_share(seconds: float = 0.05) -> float:
    """The share of this process's CPUs, in [0, 1], that others use while it sleeps some seconds.

    The load average would not do: for a minute it remembers the command before, and on a cluster it
    counts the CPUs of other jobs. 0 on systems other than Linux.
    """
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    cpus = os.sched_getaffinity(0)
    idle, total = idle_ticks(stat.read_text(), cpus)
    time.sleep(seconds)
    later_idle, later_total = idle_ticks(stat.read_text(), cpus)
    return 1 - (later_idle - idle) / (later_total - total) if later_total > total else 0.0


def idle_ticks(stat: str, cpus: Set[int]) -> tuple[int, int]:
    """Reads how long some CPUs were idle, and all their time, from the text of /proc/stat."""
    idle = total = 0
    for name, *numbers in map(str.split, stat.splitlines()):
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cpus:
            ticks = [*map(int, numbers[:8])]  # the others are parts of the first two
            idle += ticks[3] + ticks[4]  # 4: while it waited for a disk
            total += sum(ticks)
    return idle, total


def collect_seldom() -> None:
    """Lets Python look for garbage in cycles after 100,000 new objects instead of 700.

    The import of PyTorch, and beliefs, answers and statements, are millions of objects that stay.
    To look at them again and again takes a tenth of the time of a diagnosis, and finds nothing.
    """
    gc.set_threshold(100_000, 50, 100)
