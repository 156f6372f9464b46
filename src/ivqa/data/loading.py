"""Batches of rows in an order that can be interrupted and resumed exactly."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ivqa.data.batch import PixelSource, VQABatch

Rows = NDArray[np.int64]


class ShuffledBatches(DistributedSampler[Any]):
    """Training batches of row numbers; the order is a function of (seed, epoch) alone.

    Every epoch is one permutation of `rows` (N,), dealt out to the processes in turn; where it
    does not divide, the first rows of the permutation fill the last round up, so that all
    processes take equally many steps. The order over all processes together does not depend on
    how many there are. Yields (B,) int64 arrays; the last of an epoch may be shorter.

    lengths: of the questions, by row number. Of every `window` batches of the permutation those
    rows share a batch that are of like length, so that there is less padding, and the batches come
    in an order of their own, in which the number of processes has a part; a window of 1 leaves the
    permutation as it is.

    `resume(epoch, batches)` makes that epoch, and no other, start after so many batches.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        seed: int,
        num_replicas: int = 1,
        rank: int = 0,
        *,
        lengths: Rows | None = None,
        window: int = 1,
    ) -> None:
        super().__init__(range(len(rows)), num_replicas, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self.rows = rows
        self.batch_size = batch_size
        self.lengths, self.window = lengths, window
        self._resumed = (0, 0)

    def resume(self, epoch: int, batches: int) -> None:
        """Starts `epoch` after its first `batches` batches."""
        self.set_epoch(epoch)
        self._resumed = (epoch, batches)

    @property
    def start(self) -> int:
        """Batches that the current epoch skips because they were seen before a restart."""
        epoch, batches = self._resumed
        return batches if epoch == self.epoch else 0

    def __iter__(self) -> Iterator[Rows]:
        rng = np.random.default_rng([self.seed, self.epoch])
        padded = np.resize(rng.permutation(self.rows), self.num_samples * self.num_replicas)
        if self.lengths is not None and self.window > 1:
            padded = self._by_length(padded, self.lengths, rng)
        own = padded[self.rank :: self.num_replicas]
        for first in range(self.start * self.batch_size, len(own), self.batch_size):
            yield own[first : first + self.batch_size]

    def _by_length(self, order: Rows, lengths: Rows, rng: np.random.Generator) -> Rows:
        size = self.batch_size * self.num_replicas
        order = order[np.lexsort((lengths[order], np.arange(len(order)) // (size * self.window)))]
        whole = len(order) // size * size
        batches = rng.permutation(order[:whole].reshape(-1, size))
        return np.concatenate([batches.ravel(), order[whole:]])

    def __len__(self) -> int:
        """Batches of a whole epoch, also where a restart leaves fewer, as Lightning wants it."""
        return math.ceil(self.num_samples / self.batch_size)


class OrderedBatches(DistributedSampler[Any]):
    """Evaluation batches: every row exactly once over all processes, in order.

    Unlike DistributedSampler nothing is repeated, so no sample counts twice in a metric; and all
    processes get equally many batches (of slightly different sizes), so none waits for another.
    Yields (B,) int64 arrays.
    """

    def __init__(
        self, num_rows: int, batch_size: int, num_replicas: int = 1, rank: int = 0
    ) -> None:
        super().__init__(range(num_rows), num_replicas, rank, shuffle=False)  # type: ignore[arg-type]
        self.num_rows = num_rows
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[Rows]:
        own = np.arange(self.rank, self.num_rows, self.num_replicas)
        if self.num_replicas == 1:
            starts = range(0, len(own), self.batch_size)
            yield from (own[first : first + self.batch_size] for first in starts)
        else:
            yield from np.array_split(own, len(self))

    def __len__(self) -> int:
        longest = math.ceil(self.num_rows / self.num_replicas)
        shortest = self.num_rows // self.num_replicas
        batches = math.ceil(longest / self.batch_size)
        return batches if self.num_replicas == 1 else max(1, min(batches, shortest))


class BatchLoader(DataLoader[VQABatch]):
    """Loads whole batches: one indexing call of the data set a batch, nothing to collate.

    dataset: maps an array of rows (B,) to a VQABatch. batches: ShuffledBatches or OrderedBatches.
    source: attached to every batch in the main process, because sending the list of all image
    files through a worker's pipe with each batch would cost more than the batch.
    finished: how many batches of the running epoch the trainer has finished; without it, those
    handed out count.

    Stateful in Lightning's sense for ShuffledBatches: `state_dict` goes into the checkpoint and
    `load_state_dict` makes training go on with the first batch it has not finished.
    """

    def __init__(
        self,
        dataset: Dataset[VQABatch],
        batches: ShuffledBatches | OrderedBatches,
        *,
        num_workers: int = 0,
        source: PixelSource | None = None,
        finished: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(
            dataset,
            batch_size=None,
            sampler=batches,
            num_workers=num_workers,
            collate_fn=_as_is,
            # An own generator: workers draw their seeds from it, and drawing from the global one
            # would shift the dropout masks of a resumed run against those of an undisturbed one.
            generator=torch.Generator().manual_seed(0),
        )
        self._batches = batches
        self._source = source
        self._finished = finished
        self._handed_out = (0, 0)

    def __iter__(self) -> Iterator[VQABatch]:  # type: ignore[override]
        """Batches of the sampler's epoch.

        Lazy: Lightning asks for the iterator of the first epoch before it sets the epoch, and
        workers of an eager one would prefetch the rows of the wrong epoch.
        """
        start = self._batches.start if isinstance(self._batches, ShuffledBatches) else 0
        for number, batch in enumerate(super().__iter__(), start + 1):
            self._handed_out = (self._batches.epoch, number)
            yield with_source(batch, self._source)

    def state_dict(self) -> dict[str, int]:
        """{"epoch", "batches"}: how many batches of which epoch training has finished."""
        epoch, handed_out = self._handed_out
        if epoch != self._batches.epoch:
            handed_out = 0
        # A batch may have been handed out and its step interrupted: then it comes again.
        done = handed_out if self._finished is None else min(handed_out, self._finished())
        return {"epoch": self._batches.epoch, "batches": done}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Goes on where `state_dict` stopped."""
        if isinstance(self._batches, ShuffledBatches):
            self._batches.resume(state_dict["epoch"], state_dict["batches"])
        self._handed_out = (state_dict["epoch"], state_dict["batches"])


def with_source(batch: VQABatch, source: PixelSource | None) -> VQABatch:
    """The batch with `source` to open its images from."""
    return replace(batch, images=replace(batch.images, source=source))


def _as_is(batch: Any) -> Any:
    return batch
