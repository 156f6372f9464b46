"""Reads JSON files, plain or compressed (.json, .json.gz, .zip)."""

import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from ivqa.data.validation import DataError, listed
from ivqa.errors import reason_of
from ivqa.store import files

CONTAINERS = (".json", ".json.gz", ".zip")

# The errors of reading a damaged, encrypted or unusually compressed archive.
ARCHIVE_ERRORS = (
    EOFError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,  # an encrypted member; its subclass NotImplementedError: unknown compression
    ValueError,
    OverflowError,
)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens the uncompressed JSON text in a .json or .json.gz file, or a .zip of one JSON file.

    Raises:
        DataError: The file cannot be read, is cut off, damaged, encrypted or compressed in an
            unknown way, or holds no or several JSON files.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(files.open_regular(path))
            if path.suffix == ".gz":
                file = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=file)))
            elif path.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(file))
                file = stack.enter_context(archive.open(_only_member(archive, path)))
            yield file
    except DataError:
        raise
    except ARCHIVE_ERRORS as error:
        reason = reason_of(error)
        fault, remedy = "damaged or cut off", "download it again"
        if isinstance(error, RuntimeError):
            fault, remedy = "encrypted or packed in an unknown way", "unpack it"
        raise DataError(f"{path}: archive is {fault} ({reason}); {remedy}") from None


def read_bytes(path: Path) -> bytes:
    """Reads the uncompressed JSON text in a file; see `opened`."""
    if path.suffix not in (".gz", ".zip"):
        return files.read_bytes(path)
    with opened(path) as stream:
        return stream.read()


def open_json(path: Path) -> Any:
    """Reads the value in a JSON file.

    Raises:
        DataError: See `opened`; for invalid JSON, the message gives line and column.
    """
    return files.parse_json(read_bytes(path), path)


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    members = [name for name in archive.namelist() if name.endswith(".json")]
    if len(members) != 1:
        raise DataError(
            f"{path}: must hold exactly one JSON file, not {listed(members)}; unpack it"
        )
    return members[0]
