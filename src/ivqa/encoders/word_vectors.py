"""Averaged word vectors of a GloVe or word2vec text file."""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from typing_extensions import override

from ivqa.encoders.encoder import SentenceEncoder, unit_rows
from ivqa.errors import UserError
from ivqa.ranges import ExistingFile
from ivqa.store.digests import file_digest
from ivqa.store.files import FileError, check_regular
from ivqa.text.tokens import tokenise

_FEW = 0.1  # share of known words below which a file is of another language, or not lower-case


class WordVectorEncoder(SentenceEncoder):
    """The mean of the word vectors of a text, scaled to unit l2 norm.

    Args:
        path: Text file of lines `word v1 v2 ...`, optionally compressed (.gz), with or without the
            first line of word2vec (number of words and dimensions). Only the words of the corpus
            of `fit` are kept in memory.
        idf: Weights each word by its inverse document frequency, log((1 + N) / (1 + n_w)) + 1;
            n_w of the N texts of the corpus contain the word.

    Raises:
        UserError: `path` is not a file.
    """

    version: ClassVar[int] = 1

    def __init__(self, path: ExistingFile, *, idf: bool = True) -> None:
        if not Path(path).is_file():
            raise UserError(
                f"there is no file of word vectors '{path}'; pass encoder.path=FILE, such as "
                "glove.6B.300d.txt"
            )
        check_regular(path)
        self.path, self.idf = path, idf
        self.content = file_digest(Path(path))  # identifies the encoder in caches
        self._rows: dict[str, int] = {}
        self._vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)

    @staticmethod
    def check_corpus(arguments: Mapping[str, Any], texts: Sequence[str]) -> None:
        """Checks before long work that `path` has the words of a corpus, see `check_words`."""
        check_words(arguments["path"], texts)

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks before a command starts that the first line of `path` holds word vectors."""
        size_of_word_vectors(arguments["path"])

    @override
    def fit(self, texts: Sequence[str]) -> Self:
        frequency = Counter(word for text in texts for word in set(tokenise(text)))
        vectors = read_word_vectors(self.path, frequency)
        self._rows = {word: row for row, word in enumerate(vectors)}
        self._vectors = np.stack(list(vectors.values()))
        if self.idf:
            counts = np.array([frequency[word] for word in vectors])
            # Smoothed as in scikit-learn, so that no weight is 0.
            weights = np.log((1 + len(texts)) / (1 + counts)) + 1
            self._vectors *= weights[:, None].astype(np.float32)
        return self

    @override
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not self._rows:
            raise ValueError("this encoder has not seen a corpus; call fit first")
        known = [[self._rows[w] for w in tokenise(text) if w in self._rows] for text in texts]
        columns = np.array([column for row in known for column in row], dtype=np.int64)
        offsets = np.cumsum([0, *map(len, known)])
        shape = (len(texts), len(self._rows))
        counts = csr_matrix((np.ones(len(columns), "f4"), columns, offsets), shape=shape)
        # The sum of the word vectors has the direction of their mean.
        return unit_rows(np.asarray(counts @ self._vectors))


def size_of_word_vectors(path: str | Path) -> int:
    """Reads the number of dimensions from the first line of a file of word vectors.

    Raises:
        UserError: The file cannot be read, or its first line is not one of word vectors.
    """
    fields = next((line.split(" ") for _, line in _lines(Path(path))), [""])
    if len(fields) == 1 or not _is_number(fields[-1]):
        raise FileError(
            f"{path} is not a text file of word vectors: its first line is not 'word v1 v2 ...'"
        )
    declared = len(fields) == 2 and all(field.isdigit() for field in fields)
    return int(fields[1]) if declared else len(fields) - 1


def read_word_vectors(path: str | Path, words: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Reads the vectors of given words, (d,) float32, from a text file; see `WordVectorEncoder`.

    If a word occurs twice, the first vector counts.

    Raises:
        UserError: Almost none of the words has a vector; or the file is damaged, a line has another
            number of values than the first, or a value of a wanted word is not a finite number. The
            message gives the line number.
    """
    wanted, size, declared, number = set(words), None, None, 0
    found: dict[str, NDArray[np.float32]] = {}
    for number, line in _lines(Path(path)):
        fields = line.split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            declared, size = int(fields[0]), int(fields[1])  # word2vec's first line
            continue
        size = len(fields) - 1 if size is None else size
        if not size:
            raise FileError(f"{path}, line {number}: no values; give lines of 'word v1 v2 ...'")
        # Some words of GloVe contain spaces; their second field is not a number.
        if len(fields) != size + 1 and not (len(fields) > size + 1 and not _is_number(fields[1])):
            raise FileError(
                f"{path}, line {number}: {len(fields) - 1} values, but the first line has {size}; "
                "is the file truncated, or not a text file of word vectors?"
            )
        if len(fields) == size + 1 and fields[0] in wanted and fields[0] not in found:
            try:
                found[fields[0]] = np.array(fields[1:], dtype=np.float32)
            except ValueError as error:
                raise FileError(f"{path}, line {number}: {error}; repair the file") from error
            if not np.isfinite(found[fields[0]]).all():
                raise FileError(
                    f"{path}, line {number}: the vector of '{fields[0]}' is not finite; repair it"
                )
    # One line for each word, and the first line.
    if declared is not None and number != declared + 1:
        raise FileError(
            f"{path} has {number - 1} of the {declared} words that its first line declares; it is "
            "truncated: download it again"
        )
    _check_share(path, len(found), len(wanted))
    return found


def check_words(path: str | Path, texts: Iterable[str]) -> None:
    """Checks that a file has vectors for words of texts; reads it until there are enough.

    Raises:
        UserError: It has almost none of the words.
    """
    words = {word for text in texts for word in tokenise(text)}
    found = set[str]()
    for _, line in _lines(Path(path)):
        found |= words & {line.partition(" ")[0]}
        if len(found) >= _FEW * len(words):
            return
    _check_share(path, len(found), len(words))


def _check_share(path: str | Path, found: int, wanted: int) -> None:
    if found < _FEW * wanted:
        raise FileError(
            f"{path} has vectors for {found:,} of the {wanted:,} words of the questions; is it of "
            "this language, and are its words lower-case?"
        )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    check_regular(path)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        # newline="\n": some words contain other line separators.
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if text := line.rstrip(" \r\n"):
                    yield number, text
    except (EOFError, OSError, zlib.error) as error:
        raise FileError(f"{path} is damaged or truncated ({error}); download it again") from None


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
