"""Samplers and the loader of batches; an interrupted epoch resumes exactly where it stopped."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ivqa.data.batches.batch import PixelSource, VQABatch

Rows = NDArray[np.int64]


class ShuffledBatches(DistributedSampler[Any]):
    """A sampler of training batches; the order depends on (seed, epoch) only.

    Every epoch is one permutation of the rows, distributed over the processes in turn. If their
    number is not divisible by the number of processes, the first rows of the permutation are
    repeated at its end, so that all processes take the same number of steps. With a window of 1,
    the order over all processes together does not depend on their number.

    With a larger window, the rows of every `window` consecutive batches are sorted by length, which
    reduces padding, and the resulting batches are shuffled.

    With groups, the groups are permuted too, and the rows of a group follow each other. If the
    groups are images, a batch has few of them, which saves time where every step computes features.

    The iterator yields arrays of rows (B,) int64; the last batch of an epoch may be shorter.

    Args:
        rows: The rows to train on, (N,) int64.
        batch_size: Rows in a batch of one process.
        seed: Seed of the order.
        num_replicas: Number of processes.
        rank: Index of this process.
        lengths: Lengths of all questions by row; needed for a window above 1.
        window: Number of batches that are sorted by length together.
        groups: Numbers of the groups of all questions by row, from 0; None for no groups.
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
        groups: Rows | None = None,
    ) -> None:
        super().__init__(range(len(rows)), num_replicas, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self.rows = rows
        self.batch_size = batch_size
        self.lengths, self.window, self.groups = lengths, window, groups
        self._resumed = (0, 0)

    def resume(self, epoch: int, batches: int) -> None:
        """Continues an epoch after the batches that this process has finished.

        Later epochs start at their first batch.
        """
        self.set_epoch(epoch)
        self._resumed = (epoch, batches)

    @property
    def start(self) -> int:
        """Number of batches of the current epoch that were finished before a restart."""
        epoch, batches = self._resumed
        return batches if epoch == self.epoch else 0

    def __iter__(self) -> Iterator[Rows]:
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(self.rows)
        if self.groups is not None:
            place = rng.permutation(self.groups.max() + 1)  # of each group
            order = order[place[self.groups[order]].argsort(kind="stable")]
        padded = np.resize(order, self.num_samples * self.num_replicas)
        if self.lengths is not None and self.window > 1:
            padded = self._by_length(padded, self.lengths, rng)
        own = padded[self.rank :: self.num_replicas]
        for first in range(self.start * self.batch_size, len(own), self.batch_size):
            yield own[first : first + self.batch_size]

    def _by_length(self, order: Rows, lengths: Rows, rng: np.random.Generator) -> Rows:
        # `size` rows make one step of all processes. Sort by (window, length).
        size = self.batch_size * self.num_replicas
        order = order[np.lexsort((lengths[order], np.arange(len(order)) // (size * self.window)))]
        # Shuffle the full steps; the incomplete one stays at the end.
        whole = len(order) // size * size
        batches = rng.permutation(order[:whole].reshape(-1, size))
        return np.concatenate([batches.ravel(), order[whole:]])

    def __len__(self) -> int:
        """Number of batches of a whole epoch; Lightning expects it in a resumed epoch too."""
        return math.ceil(self.num_samples / self.batch_size)


class OrderedBatches(DistributedSampler[Any]):
    """A sampler of evaluation batches: every row exactly once over all processes, in order.

    Unlike in DistributedSampler, no row is repeated, so no sample counts twice in a metric. All
    processes get the same number of batches (of slightly different sizes), so none waits for
    another. The iterator yields arrays of rows (B,) int64.

    Args:
        num_rows: Number of rows of the split.
        batch_size: Maximum number of rows in a batch of one process.
        num_replicas: Number of processes.
        rank: Index of this process.
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
    """A loader that reads each batch with one indexing call; nothing is collated.

    With `ShuffledBatches` it is stateful in Lightning's sense: `state_dict` is stored in the
    checkpoint, and after `load_state_dict` training continues with the first unfinished batch.

    Args:
        dataset: Maps an array of rows (B,) to a batch.
        batches: The sampler.
        num_workers: Processes that assemble batches; 0 for the main process.
        source: Opens the pixels of the images. It is attached to every batch in the main process,
            because sending the list of all image files from a worker with each batch would take
            longer than the batch itself.
        finished: Returns the number of finished batches of the current epoch; without it, every
            batch that was handed out counts as finished.
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
            # Workers draw their seeds from this generator. Drawing them from the global one would
            # give a resumed run other dropout masks than an uninterrupted one.
            generator=torch.Generator().manual_seed(0),
        )
        self._batches = batches
        self._source = source
        self._finished = finished
        self._handed_out = (0, 0)

    def __iter__(self) -> Iterator[VQABatch]:  # type: ignore[override]
        """Iterates over the batches of the sampler's epoch.

        This is a generator, so it starts with the first batch: Lightning requests the iterator of
        the first epoch before it sets the epoch, and workers that start earlier would prefetch the
        rows of the wrong epoch.
        """
        start = self._batches.start if isinstance(self._batches, ShuffledBatches) else 0
        for number, batch in enumerate(super().__iter__(), start + 1):
            self._handed_out = (self._batches.epoch, number)
            yield with_source(batch, self._source)

    def state_dict(self) -> dict[str, int]:
        """Returns {"epoch", "batches"}: the epoch and how many of its batches are finished."""
        epoch, handed_out = self._handed_out
        if epoch != self._batches.epoch:
            handed_out = 0
        # A batch whose training step was interrupted is loaded again.
        done = handed_out if self._finished is None else min(handed_out, self._finished())
        return {"epoch": self._batches.epoch, "batches": done}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continues after the batches that `state_dict` counts."""
        if isinstance(self._batches, ShuffledBatches):
            self._batches.resume(state_dict["epoch"], state_dict["batches"])
        self._handed_out = (state_dict["epoch"], state_dict["batches"])


def with_source(batch: VQABatch, source: PixelSource | None) -> VQABatch:
    """Returns the batch with `source`, which opens the pixels of its images."""
    return replace(batch, images=replace(batch.images, source=source))
