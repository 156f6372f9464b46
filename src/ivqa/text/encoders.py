"""Sentence encoders: questions as vectors of unit length, for ranking by LASSO."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from ivqa.arrays import load_array
from ivqa.code_digest import code_digest
from ivqa.errors import UserError
from ivqa.files import FileError, content_digest, digest, written
from ivqa.integrity import is_whole, manifest_of, seal
from ivqa.ranges import Count
from ivqa.text.tokens import tokenise
from ivqa.weights import check_finite

_STORED_AT_ONCE = 4096  # texts: with vectors of 4800 dimensions 79 MB


class SentenceEncoder(Hashable, Protocol):
    """Maps texts to vectors; hashable, as any object is by its identity."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learns what it needs from a corpus; encoders that come trained need nothing."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, d) float32 of unit l2 norm; a text without a known word is a zero vector."""


class TfidfEncoder:
    """Tf-idf of words and word pairs, reduced to `size` dimensions by a truncated SVD (LSA).

    longest: words of an n-gram. min_count: texts that an n-gram must occur in.
    """

    def __init__(self, size: Count = 256, longest: Count = 2, min_count: Count = 2) -> None:
        if size < 1 or longest < 1 or min_count < 1:
            raise UserError("size, longest and min_count of the encoder must be at least 1")
        self.size, self.longest, self.min_count = size, longest, min_count
        self._terms: dict[tuple[str, ...], int] = {}
        self._weight: NDArray[np.float64] = np.zeros(0)
        self._basis: NDArray[np.float64] = np.zeros((0, 0))

    def fit(self, texts: Sequence[str]) -> Self:
        """Learns terms, their idf, and the principal directions of the corpus.

        Raises UserError where no term is frequent enough.
        """
        frequency = Counter(term for text in texts for term in set(self._grams(text)))
        kept = sorted(term for term, count in frequency.items() if count >= self.min_count)
        if not kept:
            raise UserError(f"no word occurs in {self.min_count} of {len(texts)} texts")
        self._terms = {term: at for at, term in enumerate(kept)}
        counts = np.array([frequency[term] for term in kept])
        self._weight = np.log((1 + len(texts)) / (1 + counts)) + 1
        matrix = self._matrix(texts)
        rank = min(self.size, min(matrix.shape) - 1)
        if rank < 1:
            self._basis = np.eye(len(kept))
            return self
        start = np.random.default_rng(0).standard_normal(min(matrix.shape))
        _, values, directions = svds(matrix, k=rank, v0=start)
        # Larger directions first, and with a sign that does not depend on the solver.
        directions = directions[np.argsort(-values)]
        largest = np.abs(directions).argmax(axis=1)
        directions *= np.sign(directions[np.arange(rank), largest])[:, None]
        self._basis = directions.T
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, size) float32. Raises ValueError before `fit`."""
        if not self._terms:
            raise ValueError("this encoder has not seen a corpus; call fit first")
        return unit_rows(np.asarray(self._matrix(texts) @ self._basis))

    def _matrix(self, texts: Sequence[str]) -> csr_matrix:
        rows, columns = [], []
        for row, text in enumerate(texts):
            known = [self._terms[term] for term in self._grams(text) if term in self._terms]
            rows += [row] * len(known)
            columns += known
        shape = (len(texts), len(self._terms))
        counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
        weighted = counts.multiply(self._weight[None]).tocsr()
        norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        return weighted.multiply(1 / np.maximum(norms, 1e-12)[:, None]).tocsr()

    def _grams(self, text: str) -> list[tuple[str, ...]]:
        words = tokenise(text)
        return [
            tuple(words[at : at + length])
            for length in range(1, self.longest + 1)
            for at in range(len(words) - length + 1)
        ]


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


class TransformersEncoder(TrainedEncoder):
    """Mean of the last hidden states of any transformers model: a local folder or a hub id.

    cache: a folder for encodings; None keeps none.
    """

    def __init__(
        self, path: str, batch_size: Count = 64, max_length: Count = 64, cache: str | None = None
    ) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__(cache)
        try:
            self._model: Any = AutoModel.from_pretrained(path).eval()
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path)
        except Exception as error:  # whatever the files lead to
            kind = "folder" if Path(path).is_dir() else "hub id (is the network there?)"
            reason = " ".join(str(error).split())[:300]
            raise FileError(
                f"cannot load a sentence encoder from the {kind} '{path}': {reason}; download it "
                "where there is a network and pass encoder.path=FOLDER"
            ) from error
        check_finite(self._model.state_dict(), path)
        self.path, self.batch_size, self.max_length = path, batch_size, max_length
        self.content = content_digest(path)

    @torch.no_grad()
    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # Texts of similar length are encoded together.
        order = np.argsort([len(text) for text in texts], kind="stable")
        result: NDArray[np.float32] = np.zeros((len(texts), self._model.config.hidden_size), "f4")
        for start in range(0, len(texts), self.batch_size):
            rows = order[start : start + self.batch_size]
            words = self._tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            )
            hidden = self._model(**words).last_hidden_state
            mask = words["attention_mask"][:, :, None]
            mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)
            result[rows] = mean.float().numpy()
        return unit_rows(result)


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
