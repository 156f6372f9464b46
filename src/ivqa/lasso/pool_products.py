"""Products of many vectors with a whole pool, of which only the largest are kept.

A product with the pool costs more than everything else. It is computed chunk by chunk, in the
number format that the question needs, in buffers that are allocated once. Each thread has its own
chunks, which stay in its cache until the largest products are selected.
"""

import itertools
import math
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ivqa.lasso.compiling import compiled
from ivqa.lasso.selection import Largest
from ivqa.lasso.threads import SingleThreads

# Bytes of a chunk of the pool in bfloat16, and of its products in float32. Both stay in the
# processor's cache until the largest products are selected.
_CHUNK_BYTES, _PRODUCT_BYTES = 8 * 2**20, 4 * 2**20
# Vectors are padded with zeros to a multiple of these numbers. Other sizes take up to 1.5 times as
# long, and torch keeps a compiled bfloat16 product of several megabytes for every size.
_VECTORS_MULTIPLES = {torch.bfloat16: 64, torch.float32: 8}
_ROWS_MULTIPLE = 64  # of the rows of a chunk, for the same reasons
# The first pass correlates columns with the residual of a regression on a sample of the pool. It
# has as many rows as the pool has rows or dimensions, whichever is smaller, divided by this number.
_SAMPLE_DIVISOR = 8
_SAMPLE_RIDGE = 1e-2  # of that regression, relative to the mean squared norm of its rows
# Error of a product in float32 relative to the norms of its factors: ten times the largest one
# observed.
_FLOAT32_ERROR = 5e-7
# Error of a product in bfloat16 relative to the norms, at one dimension: four standard deviations.
# It falls with the root of the dimensions.
_BFLOAT16_ERROR = 6e-3


class PoolProducts:
    """A pool of N columns of the problem, stored as rows and read in chunks.

    Args:
        pool: (N, d) float32, one column of the problem a row. It may be memory-mapped and larger
            than the memory.
        centred: Whether the problem has each column minus its mean over the d coordinates. The
            stored rows stay as they are: products with centred vectors are the same.

    Attributes:
        rows: The pool, (N, d) float32.
        largest_norm: The largest norm of a row.

    Raises:
        ValueError: A row is not finite.
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        *,
        centred: bool,
    ) -> None:
        with warnings.catch_warnings():
            # A memory map is read-only, and nothing here writes to the pool.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.rows = torch.from_numpy(np.ascontiguousarray(pool))
        self.centred = centred
        self._gathered = threading.local()
        self._buffers: dict[tuple[tuple[str, int], torch.dtype], Tensor] = {}
        self.largest_norm = self._largest_norm()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimensions(self) -> int:
        """The number d of coordinates of a vector."""
        return self.rows.shape[1]

    def _largest_norm(self) -> float:
        """The largest norm of a row; raises ValueError where one is not finite."""
        largest = 0.0
        step = self._width(1)
        for start in range(0, len(self), step):
            norms = self.rows[start : start + step].norm(dim=1)
            if not torch.isfinite(norms).all():
                bad = start + int((~torch.isfinite(norms)).nonzero()[0])
                raise ValueError(f"vector {bad} of the pool is not finite; encode it again")
            largest = max(largest, float(norms.max()))
        return largest

    def typical_error(self, dtype: torch.dtype) -> float:
        """Four standard deviations of the error of a product with a unit vector.

        It says which columns to try; `error_bound`, which always holds, says which are certain.
        """
        if dtype == torch.float32:
            return (_FLOAT32_ERROR + _rounding_of_factors()) * self.largest_norm
        return _BFLOAT16_ERROR * self.largest_norm / self.dimensions**0.5

    def error_bound(self, vectors: Tensor, dtype: torch.dtype, size: float) -> Tensor:
        """Bounds the errors of all products of vectors (B, d), for certificates; (B,) float32.

        In bfloat16 it is the rounding of columns and vectors, by the inequality of Cauchy and
        Schwarz, plus the rounding of the product. In float32 the factors are rounded too where
        torch.set_float32_matmul_precision allows it. `size` is the magnitude of the products that
        matter, such as lam.
        """
        vectors = vectors.float()
        longest = self.largest_norm
        bound = _FLOAT32_ERROR * longest * vectors.norm(dim=1)
        if dtype == torch.float32:
            return bound + _rounding_of_factors() * longest * vectors.norm(dim=1)
        rounded = vectors.to(dtype).float()
        # |a^T v - a'^T v'| <= |a - a'| |v'| + |a| |v - v'| for the rounded a' and v'.
        lost = self._rounding * rounded.norm(dim=1) + longest * (vectors - rounded).norm(dim=1)
        eps = torch.finfo(dtype).eps
        return (bound + lost) * (1 + 2 * eps) + eps * size

    @cached_property
    def _rounding(self) -> float:
        """The largest norm of the rounding error of a row in bfloat16."""
        largest = 0.0
        for rows in self.rows.split(self._width(1)):
            lost = rows.bfloat16().float().sub_(rows)
            largest = max(largest, float(lost.norm(dim=1).max()))
        return largest

    def products(self, rows: Tensor, vectors: Tensor, which: Tensor) -> Tensor:
        """Products of rows (n,) with vectors[which], in float64, (n,).

        `vectors` (B, d) are centred where the problem has centred columns; `which` (n,) is the
        vector of each row.
        """
        result = np.empty(len(rows))
        given = self.rows.numpy(), rows.numpy(), vectors.numpy(), which.numpy()
        with SingleThreads() as threads:
            edges = np.linspace(0, len(rows), threads.number + 1).astype(int).tolist()
            threads.map(lambda part: _dot(*given, result, *part), itertools.pairwise(edges))
        return torch.from_numpy(result)

    def columns(self, rows: NDArray[np.int64], room: int) -> Tensor:
        """Copies rows of the pool (n,) into a buffer of the calling thread.

        Returns (room, d) float32, of which the first n are set. The next call of this thread
        overwrites it.
        """
        buffer = getattr(self._gathered, "buffer", torch.empty(0))
        if len(buffer) < room * self.dimensions:
            buffer = self._gathered.buffer = torch.empty(room * self.dimensions)
        result = buffer[: room * self.dimensions].view(room, self.dimensions)
        torch.index_select(self.rows, 0, torch.from_numpy(rows), out=result[: len(rows)])
        return result

    def unexplained(self, vectors: Tensor) -> Tensor:
        """Residuals of a ridge regression of vectors (B, d) on a sample of the pool; (B, d)."""
        sample, factor = (part.to(vectors.device) for part in self._sample)
        # The dual form of ridge regression: a system of m equations, one a sampled row, not of d.
        products = sample @ vectors.to(sample.dtype).t()
        return vectors - (torch.cholesky_solve(products, factor).t() @ sample)

    @cached_property
    def _sample(self) -> tuple[Tensor, Tensor]:
        """Rows of the pool (m, d), and the Cholesky factor of their Gram matrix plus a ridge."""
        size = min(len(self), self.dimensions) // _SAMPLE_DIVISOR
        sample = self.rows[torch.linspace(0, len(self) - 1, size).long()]
        gram = self.gram(sample, 0).double()
        square = float(gram.trace()) / max(1, size)
        gram += _SAMPLE_RIDGE * (square or 1.0) * torch.eye(size)
        return sample, torch.linalg.cholesky(gram).to(sample.dtype)

    def gram(self, columns: Tensor, first: int) -> Tensor:
        """Products of columns (n, d) with those from `first` on, (n, n - first).

        They are centred where the problem has centred columns.
        """
        if self.centred:
            columns = columns - columns.mean(dim=1, keepdim=True)
        return torch.mm(columns, columns[first:].t())

    def largest(
        self,
        vectors: Tensor,
        number: int,
        masked: tuple[Tensor, Tensor],
        *,
        magnitude: bool,
        dtype: torch.dtype,
        least: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The largest products of each vector with the whole pool.

        Args:
            vectors: (B, d) float64.
            number: How many products to return for each vector.
            masked: (vector, row) pairs that do not count, two (n,) int64.
            magnitude: Whether the magnitude of a product counts and not its sign.
            dtype: Number format of the products.
            least: The value that a product must exceed to count, (B,); None counts all.

        Returns:
            Values (B, m) float32, largest first, -inf where too few count, and rows (B, m) int64,
            with m = min(number, N).
        """
        size, number = len(vectors), min(number, len(self))
        factors = vectors.to(dtype)
        factors = F.pad(factors, (0, 0, 0, -size % _VECTORS_MULTIPLES[dtype]))
        # Sorted by row, the masked pairs of a chunk are one slice.
        order = masked[1].argsort()
        which, rows = masked[0][order], masked[1][order].contiguous()
        floors = torch.full((size,), -torch.inf) if least is None else least
        floors = floors.to(dtype)
        starts = range(0, len(self), self._width(len(factors)))
        # One iterator for all threads: each takes the next chunk when it is free.
        waiting = iter(starts)

        def search(thread: int, best: Largest) -> None:
            for start in waiting:
                stop = min(start + starts.step, len(self))
                products = self.multiply(factors, start, stop, thread)[:size]
                if magnitude:
                    products.abs_()
                part = slice(*torch.searchsorted(rows, torch.tensor([start, stop])).tolist())
                products[which[part], rows[part] - start] = -torch.inf
                best.add(products, start)

        with SingleThreads() as threads:
            parts = [Largest(floors, number) for _ in range(threads.number)]
            threads.map(lambda thread: search(thread, parts[thread]), range(threads.number))
        return parts[0].sorted(*parts[1:])

    def _width(self, size: int) -> int:
        """Rows of the pool that are multiplied with `size` vectors at a time."""
        # 2 bytes a number in bfloat16, 4 in float32.
        width = min(_CHUNK_BYTES // (2 * self.dimensions), _PRODUCT_BYTES // (4 * max(1, size)))
        return max(1, width // _ROWS_MULTIPLE * _ROWS_MULTIPLE or width)

    def multiply(self, vectors: Tensor, start: int, stop: int, thread: int) -> Tensor:
        """Products of vectors with the rows from `start` to `stop`, in a buffer of the thread.

        `vectors` (B, d) are in the number format of the products. Returns (B, stop - start); the
        next call of this thread overwrites it.
        """
        chunk = self.rows[start:stop]
        if vectors.dtype != chunk.dtype:
            chunk = self._buffer(("chunk", thread), chunk.shape, vectors.dtype).copy_(chunk)
        products = self._buffer(("products", thread), (len(vectors), len(chunk)), vectors.dtype)
        return torch.mm(vectors, chunk.t(), out=products)

    def _buffer(self, name: tuple[str, int], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        count = math.prod(shape)
        buffer = self._buffers.get((name, dtype))
        if buffer is None or len(buffer) < count:
            buffer = torch.empty(count, dtype=dtype)
            self._buffers[name, dtype] = buffer
        return buffer[:count].view(*shape)


# The largest relative error of a factor of a float32 product, by torch's precision: TF32 keeps 10
# bits of the mantissa and bfloat16 keeps 7; hardware may cut the others off.
_FACTOR_ERRORS = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}


def _rounding_of_factors() -> float:
    """The error of a float32 product from rounded factors, relative to their norms."""
    error = _FACTOR_ERRORS[torch.get_float32_matmul_precision()]
    return 2 * error + error**2


@compiled
def _dot(
    pool: NDArray[np.float32],
    rows: NDArray[np.int64],
    vectors: NDArray[np.float64],
    which: NDArray[np.int64],
    result: NDArray[np.float64],
    start: int,
    stop: int,
) -> None:
    """Writes the products of pool[rows] with vectors[which] from start to stop, in float64."""
    for at in range(start, stop):
        column, vector, total = pool[rows[at]], vectors[which[at]], 0.0
        for place in range(len(vector)):
            total += column[place] * vector[place]
        result[at] = total
