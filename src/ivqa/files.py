"""Files: written whole or not at all, read only where they are regular files; digests and locks."""

import gc
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from rich.console import Console

from ivqa.errors import UserError

_SAMPLED = 64 << 20  # bytes: of larger files `content_digest` reads three samples
_SAMPLE = 1 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape of half a character, or one of a pair


class FileError(UserError):
    """A file is not what it must be; the message names it and the remedy."""


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yields a draft beside `path` and renames it at the end: `path` appears whole or not at all.

    The draft keeps the file name's ending. It is deleted where the block raises an exception.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes `content` whole or not at all."""
    with written(path) as draft:
        draft.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Writes `text` in UTF-8 whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Writes `value` whole or not at all. Raises ValueError for NaN and infinities."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def copy_file(source: Path, target: Path) -> None:
    """Copies a file whole or not at all."""
    with written(target) as draft:
        shutil.copyfile(source, draft)


def check_regular(path: str | Path) -> Path:
    """`path` itself, where it is a regular file or a link to one.

    A pipe or a device is refused before it is opened: reading it could wait forever.

    Raises:
        FileError: the file is missing, a folder, or no regular file.
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


def read_bytes(path: str | Path) -> bytes:
    """The content of a regular file. Raises FileError, naming it, where it cannot be read."""
    file = check_regular(path)
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileError(_unreadable(file, error)) from None


def read_text(path: str | Path) -> str:
    """The UTF-8 text of a regular file, without a byte order mark.

    Raises FileError, naming the file, where it cannot be read or is not such text.
    """
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text at byte {error.start}; re-encode it") from None


def read_json(path: str | Path, kind: type | tuple[type, ...] = object) -> Any:
    """The value in a JSON file; `kind`: what it must be, such as dict.

    Raises FileError, naming the file, where it is damaged, holds NaN or another kind of value.
    """
    value = parse_json(read_bytes(path), path, finite=True)
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(one.__name__ for one in kinds)
        raise FileError(f"{path} holds a {type(value).__name__}, not a {wanted}; restore the file")
    return value


def parse_json(content: bytes, source: str | Path, *, finite: bool = False) -> Any:
    """The value of a JSON text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Args:
        content: The text.
        source: The file's name, for messages.
        finite: Whether the literals NaN and Infinity, which JSON does not have, are refused.

    Raises:
        FileError: The text is damaged, nested too deeply, or holds half a character (a lone
            surrogate), which no UTF-8 file can hold.
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
        if _SURROGATE.search(text):
            _check_texts(value)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) - 1
        hint = "the file seems cut off; fetch it anew" if at_end else "repair the file"
        raise FileError(
            f"{source}: invalid JSON at line {error.lineno}, column {error.colno} "
            f"({error.msg}); {hint}"
        ) from None
    except RecursionError:
        raise FileError(f"{source}: JSON is nested too deeply; repair the file") from None
    except ValueError as error:  # an integer of thousands of digits, NaN, a lone surrogate
        raise FileError(f"{source}: invalid JSON ({error}); repair the file") from None
    return value


def read_yaml(path: Path, kind: type) -> Any:
    """The value in a YAML file. Raises FileError where it is damaged or holds no `kind`."""
    try:
        value = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileError(f"{path} is damaged ({reason}); restore it") from None
    if not isinstance(value, kind):
        what = "is empty" if value is None else f"holds a {type(value).__name__}"
        raise FileError(f"{path} {what}, not a {kind.__name__}; restore it")
    return value


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits that stand for a JSON value, whatever the order of its keys.

    The one digest of the package: artifacts, features, rankings and encodings are found by it.

    >>> digest({"lr": 0.1, "seed": 1}) == digest({"seed": 1, "lr": 0.1})
    True
    """
    # Lone surrogates are escaped: a digest is possible for every text.
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return bytes_digest(text.encode())


def bytes_digest(content: bytes) -> str:
    """The digest of bytes, see `digest`."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """The digest of a whole file, see `digest`."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def content_digest(path: str | Path) -> str:
    """The digest of a file, or of the files in a folder with their names; "" where nothing is.

    The same on every machine: neither times nor the folder's place count. Of files over 64 MB the
    size and the first, middle and last MB count, which tell one training's weights from another's.
    """
    place = Path(path)
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    found = [(file.name, _content(file)) for file in files if file.is_file()]
    if not found:
        return ""
    return digest(found) if place.is_dir() else digest(found[0][1])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds `folder`, which is made if absent, for one process; the others say so and wait."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        Console().print(f"Waiting for the process that makes {folder}", soft_wrap=True)
        held = lock.acquire()
    with held:
        yield


def _content(file: Path) -> list[Any]:
    size = file.stat().st_size
    if size <= _SAMPLED:
        return [size, file_digest(file)]
    samples = []
    with file.open("rb") as stream:
        for start in (0, size // 2, size - _SAMPLE):
            stream.seek(start)
            samples.append(bytes_digest(stream.read(_SAMPLE)))
    return [size, *samples]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _check_texts(value: Any) -> None:
    """Raises ValueError for a text, inside `value`, that cannot be written in UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half a character, \\u{ord(value[error.start]):04x}, alone") from None
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_texts(name)
            _check_texts(item)


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Millions of new dicts set off one full collection after another: parsing takes 2.7 times as
    # long with the collector on (measured on 48,000 annotations).
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
