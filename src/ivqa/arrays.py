"""NumPy files, read with one sentence where they are damaged or hold something else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.files import FileError, check_regular


def load_array(path: Path, kind: str, *, remedy: str = "restore the file") -> NDArray[Any]:
    """The array of a .npy file, memory-mapped; it has at least one dimension.

    Args:
        path: The file.
        kind: What its values must be, of NumPy's kinds: "f" floating-point numbers, "i" integers.
        remedy: Ends the message of an error.

    Raises:
        FileError: The file is missing, cut short, or holds another array or none.
    """
    check_regular(path)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # np.load raises whatever the bytes lead to
        raise FileError(f"{path} is {_fault(error)}; {remedy}") from None
    if not isinstance(found, np.ndarray):
        raise FileError(f"{path} holds several arrays, not one; {remedy}")
    if found.ndim == 0 or found.dtype.kind != kind:
        raise FileError(
            f"{path} holds {found.dtype} of shape {found.shape}, not an array of kind '{kind}'; "
            f"{remedy}"
        )
    return found


def load_arrays(
    path: Path, names: Sequence[str], *, remedy: str = "restore the file"
) -> Mapping[str, NDArray[Any]]:
    """The named arrays of a .npz file; all must be of numbers, and finite.

    Raises FileError where the file is missing, cut short, or lacks one of them.
    """
    check_regular(path)
    try:
        with np.load(path, allow_pickle=False) as stored:
            absent = [name for name in names if name not in stored.files]
            found = {name: stored[name] for name in names if not absent}
    except Exception as error:
        raise FileError(f"{path} is {_fault(error)}; {remedy}") from None
    if absent:
        raise FileError(f"{path} has no array {absent[0]}; {remedy}")
    for name, array in found.items():
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise FileError(f"{path}: array {name} holds values that are not finite; {remedy}")
    return found


def _fault(error: Exception) -> str:
    reason = " ".join(str(error).split())[:150] or type(error).__name__
    return f"cut short, damaged or no file of NumPy's ({reason.rstrip('.')})"
