"""The features of some images of a split, in a file of their own until all are computed."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import reason_of
from ivqa.store.files import FileError, atomic_write
from ivqa.store.shared_parts import SharedParts


class FeatureParts(SharedParts):
    """Parts of `size` rows each of some arrays of `total` rows; the last one may have fewer.

    The manifest exists once the parts are joined.
    """

    def __init__(self, folder: Path, total: int, size: int, manifest: Path) -> None:
        super().__init__(folder, -(-total // size), ".npz", manifest.is_file)
        self.total, self.size = total, size

    def rows(self, part: int) -> range:
        """The rows of a part."""
        return range(part * self.size, min((part + 1) * self.size, self.total))

    def write(self, part: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Writes the rows of a part whose lock this process holds, and gives the lock back."""
        with atomic_write(self.file(part)) as draft:
            np.savez(draft, **arrays)  # type: ignore[arg-type]
        self.give_back(part)

    def join(self, folder: Path) -> None:
        """Writes each array of all parts into one file of a folder, NAME.npy.

        Raises:
            FileError: A part is missing or damaged.
        """
        with ExitStack() as stack:
            streams = {}
            for name, first in self._read(0).items():
                draft = stack.enter_context(atomic_write(folder / f"{name}.npy"))
                streams[name] = stack.enter_context(draft.open("wb"))
                header = np.lib.format.header_data_from_array_1_0(first)
                header["shape"] = (self.total, *first.shape[1:])
                np.lib.format.write_array_header_1_0(streams[name], header)
            for part in range(len(self)):
                for name, array in self._read(part).items():
                    streams[name].write(array.tobytes())

    def _read(self, part: int) -> dict[str, NDArray[Any]]:
        file = self.file(part)
        remedy = "delete it to compute this part again"
        try:
            with np.load(file) as stored:
                arrays = dict(stored)
        except Exception as error:  # NumPy and zipfile raise many types for damaged files
            raise FileError(f"{file} is damaged ({reason_of(error)}); {remedy}") from error
        size = len(self.rows(part))
        if any(len(array) != size for array in arrays.values()):
            raise FileError(f"{file} does not have {size} rows; {remedy}")
        return arrays
