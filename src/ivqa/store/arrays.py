"""Reads NumPy files; a damaged file, or a file of another kind, raises a one-sentence error."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import reason_of
from ivqa.store.files import FileError, check_regular


def load_array(path: Path, kind: str, *, remedy: str = "restore the file") -> NDArray[Any]:
    """Opens the array in a .npy file as a read-only memory map, with at least one dimension.

    Args:
        kind: Required `dtype.kind` of the array: "f" for floating-point numbers, "i" for integers.
        remedy: What the user can do about a bad file; the last part of every error message.

    Raises:
        FileError: The file is missing, cut off or damaged, or holds an array of another kind or
            without dimensions.
    """
    check_regular(path)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # np.load raises many types, depending on the bytes
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
    """Reads the arrays `names` of finite numbers from a .npz file into memory; see `load_array`.

    Raises:
        FileError: The file is missing, cut off or damaged, lacks one of the arrays, or one of them
            holds NaN, infinities or no numbers.
    """
    check_regular(path)
    try:
        with np.load(path, allow_pickle=False) as stored:
            absent = [name for name in names if name not in stored.files]
            found = {name: stored[name] for name in names if not absent}
    except Exception as error:  # np.load raises many types, depending on the bytes
        raise FileError(f"{path} is {_fault(error)}; {remedy}") from None
    if absent:
        raise FileError(f"{path} has no array {absent[0]}; {remedy}")
    for name, array in found.items():
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise FileError(f"{path}: array {name} holds values that are not finite; {remedy}")
    return found


def _fault(error: Exception) -> str:
    reason = reason_of(error)
    return f"cut off, damaged or not a NumPy file ({reason.rstrip('.')})"
