"""The interface of sentence encoders, which map questions to unit vectors for ranking."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from typing_extensions import override

from ivqa.store.arrays import load_array
from ivqa.store.digests import digest
from ivqa.store.files import atomic_write
from ivqa.store.integrity import is_intact, manifest_of, write_manifest
from ivqa.store.versions import code_version

_STORED_AT_ONCE = 4096  # texts; 79 MB with vectors of 4800 dimensions


class SentenceEncoder(Protocol):
    """Maps texts to vectors. Encoders are hashed by identity, so that encodings can be cached."""

    def __hash__(self) -> int:
        return id(self)

    def fit(self, texts: Sequence[str]) -> Self:
        """Fits the encoder to a corpus; pretrained encoders do nothing.

        Raises:
            UserError: No word of the corpus is known, or occurs often enough.
        """
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encodes N texts, (N, d) float32 of unit l2 norm; without a known word a zero vector.

        Raises:
            ValueError: The encoder needs a corpus, and `fit` was not called.
        """
        ...


class TrainedEncoder(SentenceEncoder, ABC):
    """A pretrained encoder: the encoding of a text depends on that text alone.

    A subclass implements `_encode`. Its public attributes must determine the encodings, because
    they are part of the names of the cached files.

    Args:
        cache: Folder for encodings, which are stored as memory-mapped files named by their
            content; None stores none.
    """

    version: ClassVar[int] = 1

    def __init__(self, cache: str | None) -> None:
        self._cache = cache

    @override
    def fit(self, texts: Sequence[str]) -> Self:
        return self

    @override
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._cache is None or not texts:
            return self._encode(texts)
        # Public attributes determine the encodings; the cache's folder, for example, does not.
        settings = {name: value for name, value in vars(self).items() if name[0] != "_"}
        code = code_version([type(self)])
        name = digest([type(self).__name__, settings, code, list(texts)])
        return stored_rows(Path(self._cache) / f"{name}.npy", texts, self._encode)

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Computes the encodings of N texts, (N, d) of unit l2 norm."""


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Scales rows (N, d) to unit l2 norm, float32; zero rows stay zero.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


def stored_rows(
    file: Path, texts: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Opens the stored encodings of N >= 1 texts, (N, d) float32 memory-mapped.

    They are computed and stored if they are absent or damaged; `encode` is called with a part of
    the texts at a time.
    """
    if not is_intact(file):
        with atomic_write(file) as draft:
            starts = range(0, len(texts), _STORED_AT_ONCE)
            rows: Any = None  # opened once the first encodings give their dimensions
            for start in track(starts, description="encoding questions", transient=True):
                part = encode(texts[start : start + _STORED_AT_ONCE])
                if rows is None:
                    shape = (len(texts), part.shape[1])
                    rows = np.lib.format.open_memmap(
                        draft, mode="w+", dtype=np.float32, shape=shape
                    )
                rows[start : start + len(part)] = part
            rows.flush()
        write_manifest(manifest_of(file), [file])
    return load_array(file, "f", remedy="delete it to encode the questions again")
