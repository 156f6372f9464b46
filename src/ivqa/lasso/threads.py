"""Threads that each use one core of their own."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import torch

T = TypeVar("T")
Result = TypeVar("Result")


class SingleThreads:
    """As many threads as torch uses (`number`); inside each of them torch uses one.

    It is for many independent problems. Two such threads multiply matrices in bfloat16 three times
    as fast as torch does when it divides one product between two threads.
    """

    def __enter__(self) -> Self:
        self.number = torch.get_num_threads()
        self._threads = ThreadPoolExecutor(self.number, "single", torch.set_num_threads, (1,))
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown()

    def map(self, call: Callable[[T], Result], items: Iterable[T]) -> list[Result]:
        """Calls a function with each item; returns the results in the order of the items."""
        try:
            return list(self._threads.map(call, items))
        finally:
            # torch.set_num_threads in one thread changes the default of all later threads.
            torch.set_num_threads(self.number)

    def share(self, call: Callable[[T], object], items: Iterable[T]) -> None:
        """Calls a function with each item, without results: cheaper for many short calls.

        Each thread takes the next item when it is free.
        """
        waiting = iter(items)

        def work(_: int) -> None:
            for item in waiting:
                call(item)

        self.map(work, range(self.number))
