"""Paired timing: both sides of a claim in turn, in one process."""

import time
from collections.abc import Callable


def paired(
    first: Callable[[], object],
    second: Callable[[], object],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median seconds of each by the clock, run in turn `repeats` times after a warm-up of both."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for side, call in enumerate((first, second)):
            start = clock()
            call()
            if repeat:
                times[side].append(clock() - start)
    return sorted(times[0])[repeats // 2], sorted(times[1])[repeats // 2]
