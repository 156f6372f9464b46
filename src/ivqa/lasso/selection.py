"""The largest of many products, which come chunk by chunk.

Soon hardly any product of a chunk is among the largest so far, and compiled code sees that as fast
as it reads. To divide or sort each chunk would take longer than to multiply it.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.compiling import compiled

# Products that are compared together before one of them is looked at.
_BLOCK = 64
# The largest number of a row.
_ROWS = 2**32 - 1
_BITS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


class Largest:
    """The `number` largest products of each of B vectors with the rows of a pool so far.

    floors: what a product must exceed to count, (B,), bfloat16 or float32 as the products are, on
    the CPU. Of equal products the first rows count, whatever the order in which they come.
    """

    def __init__(self, floors: Tensor, number: int) -> None:
        self.number, self.dtype = number, floors.dtype
        self._flip = int(torch.iinfo(_BITS[self.dtype]).max)
        lowest = self._key(torch.tensor([-torch.inf], dtype=self.dtype))
        # A product and its row are one integer of the same order.
        self._found = np.full((len(floors), 2 * number + _BLOCK), lowest[0] << 32, np.int64)
        self._counts = np.zeros(len(floors), np.int64)
        self._floors = (self._key(floors) << 32) | _ROWS

    def _key(self, products: Tensor) -> NDArray[np.int64]:
        """Integers in the order of the products: their bits, those of negative ones reversed."""
        bits = products.view(_BITS[self.dtype]).numpy().astype(np.int64)
        return np.where(bits < 0, bits ^ self._flip, bits)

    def add(self, products: Tensor, start: int) -> None:
        """Looks at products (B, n) with the rows of the pool from `start` on."""
        bits = products.view(_BITS[self.dtype]).numpy()
        _collect(
            bits,
            bits.view(bits.dtype.str.replace("i", "u")),
            start,
            self._found,
            self._counts,
            self._floors,
            self.number,
            self._flip,
        )

    def sorted(self, *others: "Largest") -> tuple[Tensor, Tensor]:
        """The largest of these and of what others found in other rows of the pool.

        Values (B, number) float32, -inf where there were not as many, and rows (B, number).
        """
        parts = [torch.from_numpy(one._found) for one in (self, *others)]
        found = torch.cat(parts, dim=1).topk(self.number, dim=1).values
        key = found >> 32
        bits = key.where(key >= 0, key ^ self._flip).to(_BITS[self.dtype])
        values = bits.view(self.dtype).float()
        return values, (_ROWS - (found & _ROWS)).where(values > -torch.inf, 0)


class LargestOnDevice:
    """The same where the products are on a device, which sorts them."""

    def __init__(self, floors: Tensor, number: int) -> None:
        self.number, self._floors = number, floors.float()[:, None]
        self._values = torch.full((len(floors), number), -torch.inf)
        self._rows = torch.zeros(len(floors), number, dtype=torch.int64)

    def add(self, products: Tensor, start: int) -> None:
        """Looks at products (B, n) with the rows of the pool from `start` on."""
        top = products.topk(min(self.number, products.shape[1]), dim=1)
        values = torch.cat([self._values, top.values.float().cpu()], dim=1)
        rows = torch.cat([self._rows, top.indices.cpu() + start], dim=1)
        best = values.topk(self.number, dim=1)
        self._values, self._rows = best.values, rows.gather(1, best.indices)

    def sorted(self) -> tuple[Tensor, Tensor]:
        """Values (B, number) float32, -inf where there were not as many, and rows (B, number)."""
        over = self._values > self._floors
        return self._values.where(over, -torch.inf), self._rows


@compiled
def _collect(
    bits: NDArray[np.signedinteger],
    unsigned: NDArray[np.unsignedinteger],
    start: int,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
    floors: NDArray[np.int64],
    number: int,
    flip: int,
) -> None:
    """Appends what is over a vector's floor; a full list shrinks to its largest, a new floor."""
    width = bits.shape[1]
    for vector in range(len(bits)):
        count, floor = counts[vector], floors[vector]
        for begin in range(0, width, _BLOCK):
            end, key = min(begin + _BLOCK, width), floor >> 32
            # Bits of numbers over 0 rise with the number, those of others fall as unsigned ones.
            if end - begin < _BLOCK:
                over = True
            elif key >= 0:
                over = _any_from(bits[vector, begin:end], bits.dtype.type(key))
            else:
                over = _any_to(unsigned[vector, begin:end], unsigned.dtype.type(key ^ flip))
            if not over:
                continue
            for at in range(begin, end):
                key = np.int64(bits[vector, at])
                if key < 0:
                    key ^= flip
                one = (key << 32) | (_ROWS - start - at)
                if one > floor:
                    found[vector, count] = one
                    count += 1
                    if count == found.shape[1]:
                        floor = _shrink(found[vector], number)
                        count = number
        counts[vector], floors[vector] = count, floor


@compiled
def _any_from(part: NDArray[np.signedinteger], least: np.signedinteger) -> bool:
    found = np.uint8(0)
    for at in range(_BLOCK):
        found |= np.uint8(part[at] >= least)
    return found != 0


@compiled
def _any_to(part: NDArray[np.unsignedinteger], most: np.unsignedinteger) -> bool:
    found = np.uint8(0)
    for at in range(_BLOCK):
        found |= np.uint8(part[at] <= most)
    return found != 0


@compiled
def _shrink(found: NDArray[np.int64], number: int) -> int:
    """Brings the `number` largest to the front [Hoare 1961]; returns the least of them."""
    left, right = 0, len(found) - 1
    while left < right:
        pivot, low, high = found[(left + right) // 2], left, right
        while low <= high:
            while found[low] > pivot:
                low += 1
            while found[high] < pivot:
                high -= 1
            if low <= high:
                found[low], found[high] = found[high], found[low]
                low += 1
                high -= 1
        if number <= high + 1:
            right = high
        elif number > low:
            left = low
        else:
            break
    return found[:number].min()
