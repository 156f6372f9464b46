"""Atomic writes and checked reads of files.

A writer that is interrupted leaves no partial file; a reader names a bad file in one sentence.
"""

import errno
import gc
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import yaml

from ivqa.errors import DataError, reason_of

# The escape of a surrogate: one half of a character beyond 16 bits, valid only in a pair.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileError(DataError):
    """A file is missing, damaged or of the wrong kind; the message names it and the remedy."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Writes a file atomically: the block writes a draft, which is then renamed to `path`.

    An exception in the block deletes the draft and leaves `path` as it was. A killed process leaves
    its draft; the next process of this machine that writes into the folder deletes it. Missing
    parent folders are created.

    Yields:
        The path of the draft, in the folder of `path` and with the same suffix.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(Path(folder) / "a.txt") as draft:
        ...         _ = draft.write_text("content")
        ...     [file.name for file in Path(folder).iterdir()]
        ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned_drafts(path.parent)
    draft = path.with_name(f".{_host()}-{os.getpid()}.{path.name}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        if error.filename in (None, str(draft)):  # a full disk is noticed by the write
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes atomically, see `atomic_write`."""
    with atomic_write(path) as draft:
        try:
            draft.write_bytes(content)
        except OSError as error:
            error.add_note(f"it needs {len(content) / 1e6:,.1f} MB")
            raise


def write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8 atomically, see `atomic_write`."""
    write_bytes(path, text.encode())


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """Writes JSON Lines atomically, see `atomic_write`."""
    write_text(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Writes a JSON value atomically, see `atomic_write`; keys of dicts keep their order.

    `indent` is for people; without it, a large value is written many times faster.

    Raises:
        ValueError: The value contains NaN or an infinity, which JSON does not have.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def copy_file(source: Path, target: Path) -> None:
    """Copies a file atomically, see `atomic_write`."""
    with atomic_write(target) as draft:
        shutil.copyfile(source, draft)


def check_regular(path: str | Path) -> Path:
    """Checks that `path` is a regular file or a link to one, and returns it.

    Pipes and devices are refused before they are opened, because reading them could block forever.

    Raises:
        FileError: The file is missing, or is a folder, a pipe, a socket or a device.
    """
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        raise FileError(_unreadable(file, error)) from None
    if stat.S_ISDIR(mode):
        raise FileError(f"{file} is a folder; give a file")
    if not stat.S_ISREG(mode):
        raise FileError(f"{file} is a pipe, a socket or a device; give a regular file")
    return file


def check_folder(key: str, path: str) -> None:
    """Checks that a folder can be made and written, without making it.

    Args:
        key: The key of the configuration that names the folder.
        path: The folder; `~` is expanded. A folder that exists may be read-only.

    Raises:
        FileError: A parent is a file, or the system allows no folder there.
    """
    place = Path(path).expanduser().absolute()
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            place.stat()  # raises if the path is too long
        nearest = next(folder for folder in (place, *place.parents) if folder.exists())
        for name in place.relative_to(nearest).parts:
            with suppress(FileNotFoundError, NotADirectoryError):
                (nearest / name).stat()  # raises if the name is too long
        tempfile.TemporaryDirectory(dir=nearest).cleanup()
    except OSError as error:
        if error.errno not in NOT_WRITABLE or not place.is_dir():
            raise FileError(no_folder(key, path, error)) from None


def no_folder(key: str, path: str, error: OSError) -> str:
    """The message for a folder that cannot be made or written; arguments as of `check_folder`."""
    reason = "a file of this name exists" if isinstance(error, FileExistsError) else error.strerror
    return f"{key}={path}: no folder can be made there ({reason}); choose another one"


def open_regular(path: str | Path) -> IO[bytes]:
    """Opens a regular file; raises FileError where it cannot be opened."""
    file = check_regular(path)
    try:
        return file.open("rb")
    except OSError as error:
        raise FileError(_unreadable(file, error)) from None


def read_bytes(path: str | Path) -> bytes:
    """Reads a regular file.

    Raises:
        FileError: The file cannot be read.
    """
    file = check_regular(path)
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileError(_unreadable(file, error)) from None


def read_text(path: str | Path) -> str:
    """Reads a regular file as UTF-8 text and drops a byte order mark.

    Raises:
        FileError: The file cannot be read or is not UTF-8.
    """
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text at byte {error.start}; re-encode it") from None


def read_json(path: str | Path, kind: type | tuple[type, ...] = object) -> Any:
    """Reads a JSON file, whose value must have one of the types `kind`.

    Raises:
        FileError: The file cannot be read or is not valid JSON, or holds NaN, an infinity or a
            value of another type.
    """
    value = parse_json(read_bytes(path), path, finite=True)
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(one.__name__ for one in kinds)
        raise FileError(f"{path} holds a {type(value).__name__}, not a {wanted}; restore the file")
    return value


def parse_json(content: bytes, source: str | Path, *, finite: bool = False) -> Any:
    """Parses a JSON text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Args:
        content: The encoded text.
        source: Name of the file in error messages.
        finite: Whether to refuse the literals NaN and Infinity, which Python's parser accepts
            although JSON does not have them.

    Raises:
        FileError: The text is invalid, nested too deeply, or contains half a character (a lone
            surrogate), which cannot be written in UTF-8.
    """
    if not content.strip():
        raise FileError(f"{source} is empty; restore the file")
    try:
        text = content.decode(json.detect_encoding(content))
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: not UTF-8 text at byte {error.start}; re-encode it") from None
    options: dict[str, Any] = {"parse_constant": _refuse_constant} if finite else {}
    try:
        with _collector_paused():
            value = json.loads(text, **options)
        check_characters(value, text)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) - 1
        hint = "the file seems cut off; download it again" if at_end else "repair the file"
        raise FileError(
            f"{source}: invalid JSON at line {error.lineno}, column {error.colno} "
            f"({error.msg}); {hint}"
        ) from None
    except RecursionError:
        raise FileError(f"{source}: JSON is nested too deeply; repair the file") from None
    except ValueError as error:  # an integer of thousands of digits, NaN, a lone surrogate
        raise FileError(f"{source}: invalid JSON ({error}); repair the file") from None
    return value


def check_characters(value: Any, text: str) -> None:
    """Checks that a value parsed from a JSON text can be written in UTF-8.

    Raises:
        ValueError: A text at any depth has half a character (a lone surrogate).
    """
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ord(error.object[error.start])
            raise ValueError(f"half a character, \\u{half:04x}, alone") from None


def read_yaml(path: Path, kind: type) -> Any:
    """Reads a YAML file, whose value must have the type `kind`.

    Raises:
        FileError: The file cannot be read or is not valid YAML, or holds a value of another type.
    """
    try:
        value = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        reason = reason_of(error)
        raise FileError(f"{path} is damaged ({reason}); restore it") from None
    if not isinstance(value, kind):
        what = "is empty" if value is None else f"holds a {type(value).__name__}"
        raise FileError(f"{path} {what}, not a {kind.__name__}; restore it")
    return value


@cache  # once for each folder and process: a folder may hold many files
def _remove_abandoned_drafts(folder: Path) -> None:
    """Deletes the drafts in a folder whose processes on this machine have ended."""
    start = f".{_host()}-"
    for entry in os.scandir(folder):
        process = entry.name.removeprefix(start).partition(".")[0]
        is_draft = entry.name.startswith(start) and process.isdigit()
        if is_draft and not _runs(int(process)):
            Path(entry.path).unlink(missing_ok=True)


@cache
def _host() -> str:
    # Machines that share a folder, and containers above all, use the same process numbers.
    return hashlib.blake2b(socket.gethostname().encode()).hexdigest()[:6]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Creating millions of dicts triggers many full garbage collections: with the collector on,
    # parsing takes 2.7 times as long (measured on 48,000 annotations).
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _unreadable(file: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        if file.is_symlink():
            return f"{file} is a link to a file that does not exist; restore that file"
        return f"{file}: file not found"
    if isinstance(error, PermissionError):
        return f"{file}: permission denied; make the file readable"
    reason = getattr(error, "strerror", None) or str(error)
    return f"{file} cannot be read ({reason}); check the path"
