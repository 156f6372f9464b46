"""What a sentence encoder is: questions as vectors of unit length, for ranking by LASSO."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from ivqa.arrays import load_array
from ivqa.code_digest import code_digest
from ivqa.files import digest, written
from ivqa.integrity import is_whole, manifest_of, seal

_STORED_AT_ONCE = 4096  # texts: with vectors of 4800 dimensions 79 MB


class SentenceEncoder(Hashable, Protocol):
    """Maps texts to vectors; hashable, as any object is by its identity."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learns what it needs from a corpus; encoders that come trained need nothing."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, d) float32 of unit l2 norm; a text without a known word is a zero vector."""


class TrainedEncoder(ABC):
    """An encoder that comes trained: what it says of a text depends on that text alone.

    cache: a folder where encodings are kept, as memory-mapped files named by content; None keeps
    none. Public attributes are what determines the encodings.
    """

    def __init__(self, cache: str | None) -> None:
        self._cache = cache

    def fit(self, texts: Sequence[str]) -> Self:
        """Nothing to learn."""
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, d) float32; read from disk, not into memory, where there is a cache."""
        if self._cache is None or not texts:
            return self._encode(texts)
        settings = {name: value for name, value in vars(self).items() if name[0] != "_"}
        code = code_digest([type(self)])
        name = digest([type(self).__name__, settings, code, list(texts)])
        return stored_rows(Path(self._cache) / f"{name}.npy", texts, self._encode)

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encodings of unit l2 norm (N, d)."""


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """The rows (N, d) at unit l2 norm, float32; zero rows stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


def stored_rows(
    file: Path, texts: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The encodings (N, d) of N >= 1 texts, memory-mapped.

    The .npy file is made if it is absent or no longer as it was written.
    """
    if not is_whole(file):
        with written(file) as draft:
            starts = range(0, len(texts), _STORED_AT_ONCE)
            rows: Any = None
            for start in track(starts, description="encoding questions", transient=True):
                part = encode(texts[start : start + _STORED_AT_ONCE])
                if rows is None:
                    shape = (len(texts), part.shape[1])
                    rows = np.lib.format.open_memmap(
                        draft, mode="w+", dtype=np.float32, shape=shape
                    )
                rows[start : start + len(part)] = part
            rows.flush()
        seal(manifest_of(file), [file])
    return load_array(file, "f", remedy="delete it to encode the questions again")
