"""Products of many vectors with a whole pool, of which only the largest are kept.

A product with the pool costs more than everything else, so it is done in the number format that
the question at hand needs, chunk by chunk, in buffers that are made once.
"""

import threading
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Bytes of one buffer: a chunk of the pool in bfloat16, or products waiting for selection.
_CHUNK_BYTES = 16 * 2**20
_PRODUCT_BYTES = 32 * 2**20
# Bounds of the error of a product, relative to the norms: of float32, ten times what occurs; of
# bfloat16, four standard deviations at one dimension, which fall with the root of the dimensions.
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
        self._buffers: dict[torch.dtype, Tensor] = {}
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
        for start, rows in self._chunks(_CHUNK_BYTES):
            norms = rows.norm(dim=1)
            if not torch.isfinite(norms).all():
                bad = start + int((~torch.isfinite(norms)).nonzero()[0])
                raise ValueError(f"vector {bad} of the pool is not finite; encode it again")
            longest = max(longest, float(norms.max()))
        return longest

    def error(self, dtype: torch.dtype) -> float:
        """A bound of the error of a product with a vector of norm 1; statistical in bfloat16."""
        if dtype == torch.float32:
            return _FLOAT_ERROR * self.longest
        return _BFLOAT_ERROR * self.longest / self.dimensions**0.5

    def products(self, rows: Tensor, vectors: Tensor, which: Tensor) -> Tensor:
        """The products of rows (n,) of the pool with vectors[which], (n,) float64."""
        step = max(1, _CHUNK_BYTES // (8 * self.dimensions))
        parts = [
            (self.centred(self.columns(rows[part]).double()) * vectors[which[part]]).sum(dim=1)
            for part in (slice(at, at + step) for at in range(0, len(rows), step))
        ]
        return torch.cat(parts) if parts else vectors.new_zeros(0)

    def columns(self, rows: Tensor) -> Tensor:
        """Rows (n,) of the pool, (n, d) float32, until this thread calls again."""
        count = len(rows) * self.dimensions
        buffer = getattr(self._gathered, "buffer", torch.empty(0))
        if len(buffer) < count:
            buffer = self._gathered.buffer = torch.empty(count)
        result = buffer[:count].view(-1, self.dimensions)
        return torch.index_select(self.rows, 0, rows, out=result)

    def centred(self, columns: Tensor) -> Tensor:
        """Columns (n, d) of A for rows of the pool: minus their mean, if so meant."""
        return columns - columns.mean(dim=1, keepdim=True) if self.means else columns

    def largest(
        self,
        vectors: Tensor,
        number: int,
        masked: tuple[Tensor, Tensor],
        *,
        magnitude: bool,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """The `number` largest products of each vector (B, d): values (B, m) float32, rows (B, m).

        masked: (vector, row) pairs that do not count; where there are too few others, values are
        -inf. magnitude: the size of a product counts, not its sign. dtype: of the products.
        """
        single = vectors.to(self.device, dtype)
        width = max(1, _PRODUCT_BYTES // (4 * max(1, len(vectors))))
        best: tuple[Tensor, Tensor] | None = None
        for start in range(0, len(self), width):
            stop = min(start + width, len(self))
            products = self.multiply(single, start, stop, dtype)
            if magnitude:
                products.abs_()
            here = (masked[1] >= start) & (masked[1] < stop)
            pairs = masked[0][here], masked[1][here] - start
            products[pairs[0].to(self.device), pairs[1].to(self.device)] = -torch.inf
            top = products.topk(min(number, stop - start), dim=1)
            found = top.values.float().cpu(), top.indices.cpu() + start
            best = found if best is None else _merge(best, found, number)
        assert best is not None
        return best

    def multiply(self, vectors: Tensor, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        """Vectors (B, d) times the columns from start to stop, in a buffer that is used again."""
        count = len(vectors) * (stop - start)
        if dtype not in self._buffers or len(self._buffers[dtype]) < count:
            self._buffers[dtype] = torch.empty(count, dtype=dtype, device=self.device)
        products = self._buffers[dtype][:count].view(len(vectors), -1)
        size = _CHUNK_BYTES if dtype == torch.bfloat16 else 4 * _CHUNK_BYTES
        for at, rows in self._chunks(size, start, stop):
            chunk = rows.to(self.device).to(dtype)
            torch.mm(vectors, chunk.t(), out=products[:, at - start : at - start + len(rows)])
        return products

    def _chunks(
        self, size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        stop = len(self) if stop is None else stop
        step = max(1, size // (2 * self.rows.shape[1]))
        for at in range(start, stop, step):
            yield at, self.rows[at : min(at + step, stop)]


def _merge(
    one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor], number: int
) -> tuple[Tensor, Tensor]:
    values, rows = torch.cat([one[0], two[0]], dim=1), torch.cat([one[1], two[1]], dim=1)
    top = values.topk(min(number, values.shape[1]), dim=1)
    return top.values, rows.gather(1, top.indices)
