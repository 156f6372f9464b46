"""Digests of values and of files."""

import hashlib
import json
from pathlib import Path
from typing import Any

_SAMPLED = 64 << 20  # bytes; `content_digest` reads three samples of larger files


_SAMPLE = 1 << 20  # bytes of each sample


def digest(value: Any) -> str:
    """Computes the digest of a JSON value: 16 hexadecimal digits (BLAKE2b with 8 bytes).

    It does not depend on the order of dict keys. This is the only digest in the package: it is the
    key of every stored artifact, feature, ranking and encoding.

    Raises:
        ValueError: The value contains NaN or an infinity.

    Example:
        >>> digest({"lr": 0.1, "seed": 1}) == digest({"seed": 1, "lr": 0.1})
        True
    """
    # The default ensure_ascii=True escapes lone surrogates, which encode() would refuse.
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return bytes_digest(text.encode())


def bytes_digest(content: bytes) -> str:
    """Computes the digest of bytes: 16 hexadecimal digits, see `digest`."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """Computes the digest of a whole file: 16 hexadecimal digits, see `digest`."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def sha256_checksum(path: Path) -> str:
    """Computes the SHA-256 checksum of a whole file: 64 hexadecimal digits, as sha256sum prints."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_digest(path: str | Path) -> str:
    """Computes the digest of a file, or of the names and contents of the files in a folder.

    It is the same on every machine: it depends neither on times nor on the location. For files over
    64 MiB it covers the size and the first, middle and last MiB only, which differ between the
    weights of any two trainings. Subfolders are not entered. It is "" if nothing exists at `path`.
    """
    place = Path(path)
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    found = [(file.name, _content(file)) for file in files if file.is_file()]
    if not found:
        return ""
    return digest(found) if place.is_dir() else digest(found[0][1])


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
