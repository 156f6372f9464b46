"""How processes use the machine: memory that they free, and two trainings side by side."""

import ctypes
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


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


@contextmanager
def beside(task: Callable[..., object], *arguments: object, log: Path) -> Iterator[None]:
    """Runs task(*arguments) in a process of its own, with half of the threads, beside the block.

    What it prints goes to `log`. When it is done, the block has all threads. The end of the block
    ends it, done or not: the block waits for what it needs of it, or makes that itself where the
    process failed.
    """
    threads = torch.get_num_threads()
    # A forked process would find the locks of this one's OpenMP threads, without the threads.
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(task, arguments, threads // 2, log)
    )

    def take_threads_back() -> None:
        if not process.is_alive():
            torch.set_num_threads(threads)

    torch.set_num_threads(threads - threads // 2)
    try:
        with _when_a_process_ends(take_threads_back):
            process.start()
            yield
    finally:
        torch.set_num_threads(threads)
        process.terminate()
        process.join()


@contextmanager
def _when_a_process_ends(act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` during the block when a process that this one started ends.

    In the main thread: OpenMP keeps the number of threads for each thread that asks for work.
    """
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield
        return
    before = signal.signal(signal.SIGCHLD, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)


def _run(
    task: Callable[..., object], arguments: tuple[object, ...], threads: int, log: Path
) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    with log.open("wb") as stream:
        for printed in (1, 2):
            os.dup2(stream.fileno(), printed)
    task(*arguments)
