"""Paired timing: both sides of a claim in turn, in one process."""

import time
from collections.abc import Callable


def paired(
    first: Callable[[], object], second: Callable[[], object], repeats: int = 5
) -> tuple[float, float]:
    """Median seconds of each, run in turn `repeats` times after one warm-up of both."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for side, call in enumerate((first, second)):
            start = time.perf_counter()
            call()
            if repeat:
                times[side].append(time.perf_counter() - start)
    return sorted(times[0])[repeats // 2], sorted(times[1])[repeats // 2]
