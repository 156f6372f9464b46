"""Reads JSON files, plain or compressed (.json, .json.gz, .zip)."""

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

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


def read_bytes(path: Path) -> bytes:
    """Reads the uncompressed JSON text in a .json or .json.gz file, or a .zip of one JSON file.

    Raises:
        DataError: The file cannot be read, is cut off, damaged, encrypted or compressed in an
            unknown way, or holds no or several JSON files.
    """
    try:
        content = files.read_bytes(path)
    except files.FileError as error:
        raise DataError(str(error)) from None
    try:
        if path.suffix == ".gz":
            return gzip.decompress(content)
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return archive.read(only_member(archive, path))
    except DataError:
        raise
    except ARCHIVE_ERRORS as error:
        reason = reason_of(error)
        fault, remedy = "damaged or cut off", "download it again"
        if isinstance(error, RuntimeError):
            fault, remedy = "encrypted or packed in an unknown way", "unpack it"
        raise DataError(f"{path}: archive is {fault} ({reason}); {remedy}") from None
    return content


def open_json(path: Path) -> Any:
    """Reads the value in a JSON file.

    Raises:
        DataError: See `read_bytes`; for invalid JSON, the message gives line and column.
    """
    content = read_bytes(path)
    try:
        return files.parse_json(content, path)
    except files.FileError as error:
        raise DataError(str(error)) from None


def only_member(archive: zipfile.ZipFile, path: Path) -> str:
    """Returns the name of the only JSON file in an open archive, whose file is `path`.

    Raises:
        DataError: The archive holds no or several JSON files.
    """
    members = [name for name in archive.namelist() if name.endswith(".json")]
    if len(members) != 1:
        raise DataError(
            f"{path}: must hold exactly one JSON file, not {listed(members)}; unpack it"
        )
    return members[0]
