"""Products of many vectors with a whole pool, of which only the largest are kept.

A product with the pool costs more than everything else, so it is done in the number format that
the question at hand needs, chunk by chunk, in buffers that are made once; on a CPU each thread has
chunks of its own, which stay in its cache until the largest products are picked.
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
from ivqa.lasso.selection import Largest, LargestOnDevice
from ivqa.lasso.threads import SingleThreads

# Bytes of a chunk of the pool in bfloat16, and of its products in float32.
_CACHED, _ON_DEVICE = (8 * 2**20, 4 * 2**20), (64 * 2**20, 32 * 2**20)
# Bytes of a chunk of the pool, and of its products, in float64.
_EXACT = 16 * 2**20
# Vectors that are multiplied are a multiple of these, the last of them zeros, and so are the pool's
# rows: other sizes take up to half as long again, and in bfloat16 torch keeps a compiled product of
# each size that it met, megabytes each.
_VECTORS, _ROWS = {torch.bfloat16: 64, torch.float32: 8}, 64
# Of as many rows as there are dimensions one is in the sample; the ridge of a regression on it,
# relative to the rows' squares.
_SAMPLED, _SAMPLE_RIDGE = 8, 1e-2
# Errors of a product, relative to the norms: of float32, ten times what occurs; of bfloat16, four
# standard deviations at one dimension, which fall with the root of the dimensions.
_FLOAT_ERROR = 5e-7
_BFLOAT_ERROR = 6e-3


class PoolProducts:
    """A pool (N, d) float32, read in chunks, that may be larger than the memory (memory-mapped).

    centred: columns are meant minus their mean over the coordinates. device: of the products.
    longest: the largest norm of a row. Raises ValueError where a row is not finite.
    """

    def __init__(self, pool: NDArray[np.float32], *, centred: bool, device: torch.device) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self.rows = torch.from_numpy(np.ascontiguousarray(pool))
        self.means, self.device = centred, device
        self._gathered = threading.local()
        self._buffers: dict[tuple[tuple[str, int], torch.dtype], Tensor] = {}
        self.longest = self._longest()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimensions(self) -> int:
        """The size d of a vector."""
        return self.rows.shape[1]

    def _longest(self) -> float:
        """The largest norm of a row. Raises ValueError where one is not finite."""
        longest = 0.0
        step = self._width(1)
        for start in range(0, len(self), step):
            norms = self.rows[start : start + step].norm(dim=1)
            if not torch.isfinite(norms).all():
                bad = start + int((~torch.isfinite(norms)).nonzero()[0])
                raise ValueError(f"vector {bad} of the pool is not finite; encode it again")
            longest = max(longest, float(norms.max()))
        return longest

    def error(self, dtype: torch.dtype) -> float:
        """What the error of a product with a vector of norm 1 hardly ever exceeds."""
        if dtype == torch.float32:
            return _FLOAT_ERROR * self.longest
        return _BFLOAT_ERROR * self.longest / self.dimensions**0.5

    def bound(self, vectors: Tensor, dtype: torch.dtype, size: float) -> Tensor:
        """What the error of products of about that size never exceeds, (B,) for vectors (B, d).

        In bfloat16: what rounding takes from columns and vectors, by Cauchy and Schwarz, and from
        the product.
        """
        vectors = vectors.float()
        bound = _FLOAT_ERROR * self.longest * vectors.norm(dim=1)
        if dtype == torch.float32:
            return bound
        rounded = vectors.to(dtype).float()
        lost = self._rounding * rounded.norm(dim=1) + self.longest * (vectors - rounded).norm(dim=1)
        eps = torch.finfo(dtype).eps
        return (bound + lost) * (1 + 2 * eps) + eps * size

    @cached_property
    def _rounding(self) -> float:
        """The largest norm of what rounding to bfloat16 takes from a row."""
        largest = 0.0
        for rows in self.rows.split(self._width(1)):
            lost = rows.bfloat16().float().sub_(rows)
            largest = max(largest, float(lost.norm(dim=1).max()))
        return largest

    def products(self, rows: Tensor, vectors: Tensor, which: Tensor) -> Tensor:
        """The products of rows (n,) of the pool with vectors[which], (n,) float64.

        Where columns are meant to be centred, the vectors are.
        """
        result = np.empty(len(rows))
        given = self.rows.numpy(), rows.numpy(), vectors.numpy(), which.numpy()
        with SingleThreads() as threads:
            edges = np.linspace(0, len(rows), threads.number + 1).astype(int).tolist()
            threads.map(lambda part: _dot(*given, result, *part), itertools.pairwise(edges))
        return torch.from_numpy(result)

    def columns(self, rows: NDArray[np.int64], room: int) -> Tensor:
        """Rows (n,) of the pool, with room for others behind them, (room, d) float32.

        They are there until this thread calls again.
        """
        buffer = getattr(self._gathered, "buffer", torch.empty(0))
        if len(buffer) < room * self.dimensions:
            buffer = self._gathered.buffer = torch.empty(room * self.dimensions)
        result = buffer[: room * self.dimensions].view(room, self.dimensions)
        torch.index_select(self.rows, 0, torch.from_numpy(rows), out=result[: len(rows)])
        return result

    def unexplained(self, vectors: Tensor) -> Tensor:
        """What a ridge regression on a sample of the pool leaves of vectors (B, d) float64."""
        sample, factor = self._sample
        products = sample @ vectors.to(sample.dtype).t()
        return vectors - (torch.cholesky_solve(products, factor).t() @ sample)

    @cached_property
    def _sample(self) -> tuple[Tensor, Tensor]:
        """Rows of the pool (m, d) and the Cholesky factor of their Gram matrix, a ridge added."""
        size = min(len(self), self.dimensions) // _SAMPLED
        sample = self.rows[torch.linspace(0, len(self) - 1, size).long()]
        gram = self.gram(sample, 0).double()
        square = float(gram.trace()) / max(1, size)
        gram += _SAMPLE_RIDGE * (square or 1.0) * torch.eye(size)
        return sample, torch.linalg.cholesky(gram).to(sample.dtype)

    def gram(self, columns: Tensor, first: int) -> Tensor:
        """Products of columns (n, d) with those from `first` on, (n, n - first)."""
        if self.means:
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
        """The `number` largest products of each vector (B, d): values (B, m) float32, rows (B, m).

        masked: (vector, row) pairs that do not count; where there are too few others, values are
        -inf. magnitude: the size of a product counts, not its sign. dtype: of the products. least:
        what a product must exceed to count, (B,).
        """
        size, number = len(vectors), min(number, len(self))
        single = vectors.to(self.device, dtype)
        single = F.pad(single, (0, 0, 0, -size % _VECTORS[dtype]))
        order = masked[1].argsort()
        which, rows = masked[0][order].to(self.device), masked[1][order].contiguous()
        floors = torch.full((size,), -torch.inf) if least is None else least
        floors = floors.to(dtype)
        starts = range(0, len(self), self._width(len(single)))
        waiting = iter(starts)

        def search(thread: int, best: Largest | LargestOnDevice) -> None:
            for start in waiting:
                stop = min(start + starts.step, len(self))
                products = self.multiply(single, start, stop, thread)[:size]
                if magnitude:
                    products.abs_()
                here = slice(*torch.searchsorted(rows, torch.tensor([start, stop])).tolist())
                products[which[here], (rows[here] - start).to(self.device)] = -torch.inf
                best.add(products, start)

        if self.device.type != "cpu":
            found = LargestOnDevice(floors, number)
            search(0, found)
            return found.sorted()
        with SingleThreads() as threads:
            parts = [Largest(floors, number) for _ in range(threads.number)]
            threads.map(lambda thread: search(thread, parts[thread]), range(threads.number))
        return parts[0].sorted(*parts[1:])

    def exact_largest(
        self,
        vectors: Tensor,
        number: int,
        masked: tuple[Tensor, Tensor],
        *,
        magnitude: bool,
    ) -> tuple[Tensor, Tensor]:
        """The `number` largest products of each vector (B, d) with the whole pool, in float64.

        Args:
            vectors: (B, d) float64; centred where columns are meant to be.
            number: products to return of each vector, at most N.
            masked: (vector, row) pairs that do not count.
            magnitude: whether the size of a product counts and not its sign.

        Returns:
            Values (B, number) float64, largest first, -inf where too few count, and rows
            (B, number) int64.
        """
        values = torch.full((len(vectors), number), -torch.inf, dtype=torch.float64)
        places = torch.zeros(len(vectors), number, dtype=torch.int64)
        step = max(_EXACT // (8 * max(self.dimensions, len(vectors))), number)
        for start in range(0, len(self), step):
            chunk = self.rows[start : start + step].double()
            products = vectors @ chunk.t()
            if magnitude:
                products.abs_()
            here = (masked[1] >= start) & (masked[1] < start + len(chunk))
            products[masked[0][here], masked[1][here] - start] = -torch.inf
            top = products.topk(min(number, len(chunk)), dim=1)
            best = torch.cat([values, top.values], dim=1).topk(number, dim=1)
            places = torch.cat([places, top.indices + start], dim=1).gather(1, best.indices)
            values = best.values
        return values, places

    def _width(self, size: int) -> int:
        """Rows of the pool that are multiplied with `size` vectors at a time."""
        chunk, products = _CACHED if self.device.type == "cpu" else _ON_DEVICE
        width = min(chunk // (2 * self.dimensions), products // (4 * max(1, size)))
        return max(1, width // _ROWS * _ROWS or width)

    def multiply(self, vectors: Tensor, start: int, stop: int, thread: int) -> Tensor:
        """Vectors (B, d) times the columns from start to stop, in a buffer of that thread's."""
        chunk = self.rows[start:stop]
        if vectors.dtype != chunk.dtype or self.device != chunk.device:
            chunk = self._buffer(("chunk", thread), chunk.shape, vectors.dtype).copy_(chunk)
        products = self._buffer(("products", thread), (len(vectors), len(chunk)), vectors.dtype)
        return torch.mm(vectors, chunk.t(), out=products)

    def _buffer(self, name: tuple[str, int], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        count = math.prod(shape)
        buffer = self._buffers.get((name, dtype))
        if buffer is None or len(buffer) < count:
            buffer = torch.empty(count, dtype=dtype, device=self.device)
            self._buffers[name, dtype] = buffer
        return buffer[:count].view(*shape)


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
