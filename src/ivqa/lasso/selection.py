"""The largest of many products, which arrive chunk by chunk.

After the first chunks very few products are among the largest so far. Compiled code skips the
others as fast as it reads them; partitioning or sorting each chunk would take longer than the
multiplication.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.compiling import compiled

# Products that are compared together with the floor, in a loop that the compiler vectorises.
_BLOCK = 64
# The largest row number: it takes the lower 32 bits of an entry.
_MAX_ROW = 2**32 - 1
_BITS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


class Largest:
    """The largest products so far of each of B vectors with the rows of a pool.

    Of equal products those of the first rows count, in whatever order they arrive.

    Args:
        floors: The value that a product must exceed to count, (B,), bfloat16 or float32 as the
            products are.
        number: How many products to keep for each vector.
    """

    def __init__(self, floors: Tensor, number: int) -> None:
        self.number, self.dtype = number, floors.dtype
        # All bits of a number but the sign.
        self._flip = int(torch.iinfo(_BITS[self.dtype]).max)
        lowest = self._key(torch.tensor([-torch.inf], dtype=self.dtype))
        # One int64 holds a product (upper bits) and its row (lower bits), in the order wanted.
        self._found = np.full((len(floors), 2 * number + _BLOCK), lowest[0] << 32, np.int64)
        self._counts = np.zeros(len(floors), np.int64)
        # The lower half is full, so a product that equals the floor does not exceed it.
        self._floors = (self._key(floors) << 32) | _MAX_ROW

    def _key(self, products: Tensor) -> NDArray[np.int64]:
        """Integers in the order of the products: their bits, reversed for negative ones."""
        bits = products.view(_BITS[self.dtype]).numpy().astype(np.int64)
        return np.where(bits < 0, bits ^ self._flip, bits)

    def add(self, products: Tensor, start: int) -> None:
        """Adds a chunk of products (B, n), in the format of `floors`.

        Its first column belongs to the row `start` of the pool.
        """
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
        """The largest of these products and of those that other threads found in other rows.

        Returns values (B, number) float32, largest first, -inf where too few counted, and rows
        (B, number) int64.
        """
        parts = [torch.from_numpy(one._found) for one in (self, *others)]
        found = torch.cat(parts, dim=1).topk(self.number, dim=1).values
        key = found >> 32
        bits = key.where(key >= 0, key ^ self._flip).to(_BITS[self.dtype])
        values = bits.view(self.dtype).float()
        # Entries hold _MAX_ROW - row: of equal products, the one of the first row is the largest.
        return values, (_MAX_ROW - (found & _MAX_ROW)).where(values > -torch.inf, 0)


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
    """Appends the products over a vector's floor.

    A full list is reduced to its `number` largest, whose smallest is the new floor.
    """
    width = bits.shape[1]
    for vector in range(len(bits)):
        count, floor = counts[vector], floors[vector]
        for begin in range(0, width, _BLOCK):
            end, key = min(begin + _BLOCK, width), floor >> 32
            # As signed integers, bits of positive numbers increase with the number; as unsigned
            # integers, bits of negative numbers decrease with it.
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
                one = (key << 32) | (_MAX_ROW - start - at)
                if one > floor:
                    found[vector, count] = one
                    count += 1
                    if count == found.shape[1]:
                        floor = _shrink(found[vector], number)
                        count = number
        counts[vector], floors[vector] = count, floor


@compiled
def _any_from(part: NDArray[np.signedinteger], least: np.signedinteger) -> bool:
    """Whether one of a block is at least `least`; without branches, so that it is vectorised."""
    found = np.uint8(0)
    for at in range(_BLOCK):
        found |= np.uint8(part[at] >= least)
    return found != 0


@compiled
def _any_to(part: NDArray[np.unsignedinteger], most: np.unsignedinteger) -> bool:
    """Whether one of a block is at most `most`."""
    found = np.uint8(0)
    for at in range(_BLOCK):
        found |= np.uint8(part[at] <= most)
    return found != 0


@compiled
def _shrink(found: NDArray[np.int64], number: int) -> int:
    """Moves the `number` largest to the front by quickselect [Hoare 1961]; returns the smallest."""
    left, right = 0, len(found) - 1
    while left < right:
        # Partition in descending order around the pivot.
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
        # Only the side with position `number` is searched further.
        if number <= high + 1:
            right = high
        elif number > low:
            left = low
        else:
            break
    return found[:number].min()
