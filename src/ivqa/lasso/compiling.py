"""Functions compiled to machine code, which threads can run in parallel, and their arrays."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiles a function with numba.

    It releases the global interpreter lock. Sums may be reordered, which lets the processor add
    many numbers at once.
    """
    result: Any = numba.njit(
        # Without the flags nnan and ninf: the solvers compare with inf and check for nan. The numpy
        # error model divides by zero without an exception.
        nogil=True,
        cache=True,
        fastmath={"reassoc", "contract", "nsz", "arcp"},
        error_model="numpy",
    )(function)
    return cast(Function, result)
