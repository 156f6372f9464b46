"""Parts of a long computation that several processes do together, through files alone.

Each part is a file. A process takes the lock of a part that has no file, computes the part, writes
the file and takes the next one, so processes may join or die at any time. The lock of a process
that died is free.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from filelock import BaseFileLock

from ivqa.store.locks import hold_lock, try_lock


class SharedParts:
    """Parts 0 to `count` - 1 in a folder.

    As a context manager it gives the locks that are still held back at the end of the block.

    Args:
        folder: The folder of the parts; it is created with the first lock.
        count: The number of parts.
        suffix: The ending of their files.
        obsolete: Tells whether the parts are not needed any more, because they were joined.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        suffix: str,
        obsolete: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder, self.suffix = folder, suffix
        self.obsolete = obsolete
        self._count = count
        self._held: dict[int, BaseFileLock] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for part in list(self._held):
            self.give_back(part)

    def __len__(self) -> int:
        return self._count

    def file(self, part: int) -> Path:
        """The file of a part; the process that holds its lock writes it atomically."""
        return self.folder / f"part_{part:06d}{self.suffix}"

    def missing(self) -> list[int]:
        """The parts without a file; none if the parts are obsolete."""
        found = {file.name for file in self.folder.glob(f"part_*{self.suffix}")}
        parts = [part for part in range(len(self)) if self.file(part).name not in found]
        return [] if self.obsolete() else parts

    def claims(self) -> Iterator[int]:
        """Takes the locks of missing parts that no other process holds, and yields the parts.

        The locks are held until `give_back`, or the end of the block.

        Raises:
            FileError: The file system has no locks.
        """
        for part in self.missing():
            lock = self._taken_at_once(part)
            if lock is None:
                continue
            self._held[part] = lock
            if self.file(part).is_file() or self.obsolete():
                self.give_back(part)  # another process was faster
            else:
                yield part

    def give_back(self, part: int) -> None:
        """Gives the lock of a part back, after its file was written."""
        self._held.pop(part).release()

    def wait_for(self, part: int) -> None:
        """Waits until no other process holds the lock of a part: it wrote the part, or died."""
        message = f"Waiting for the process that makes {self.file(part)}"
        with suppress(FileNotFoundError), hold_lock(self._lock(part), message):
            pass  # the folder is missing where the parts were joined in the meantime

    def _taken_at_once(self, part: int) -> BaseFileLock | None:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return try_lock(self._lock(part))
        except FileNotFoundError:  # the parts were joined, and their folder was deleted
            return None

    def _lock(self, part: int) -> Path:
        return self.folder / f"part_{part:06d}.lock"
