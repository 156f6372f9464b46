"""Locks of files and folders between processes."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from ivqa.store.files import NOT_WRITABLE, FileError
from ivqa.terminal import terminal

# What a file system without locks answers.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Holds a folder for one process at a time; other processes print a message and wait.

    The lock is a file `.lock` in the folder, which is created if it does not exist. A folder that
    this process may not write is not locked: its files are read, and an attempt to write one names
    the file.

    Raises:
        FileError: The file system has no locks, or the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
        raise FileError(
            f"{folder} does not exist and cannot be created ({error.strerror}); choose a folder "
            "that you may write, such as artifacts=FOLDER"
        ) from None
    with hold_lock(folder / ".lock", f"Waiting for the process that makes {folder}"):
        yield


@contextmanager
def hold_lock(file: Path, message: str) -> Iterator[None]:
    """Holds a lock, for which it waits while another process holds it, and shows the message.

    Without permission to write the file of the lock, nothing is held.

    Raises:
        FileError: The file system has no locks.
    """
    lock: BaseFileLock | None = None
    try:
        lock = try_lock(file)
        if lock is None:
            terminal().print(message, soft_wrap=True)
            lock = FileLock(file)
            lock.acquire()
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def try_lock(file: Path) -> BaseFileLock | None:
    """Takes a lock; None if another process holds it. The lock of a process that died is free.

    Raises:
        FileError: The file system has no locks.
    """
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        # Without flock, filelock itself takes a file that exists for as long as the lock is held.
        # Network file systems report its absence in more ways than the one that filelock knows.
        raise FileError(
            f"{file} cannot be locked ({error.strerror}), because its file system has no locks; "
            "set artifacts= to a folder of another disk"
        ) from None
    return lock
