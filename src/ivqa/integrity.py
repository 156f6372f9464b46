"""Stored files that are found damaged when they are opened: sizes and digests noted at writing.

A manifest is written after the files that it lists, so that its presence says that they are
complete. `damage` compares them with it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ivqa.files import FileError, file_digest, read_json, write_json

MANIFEST = "integrity.json"
"""Name of the manifest of a folder."""

# Bytes: a larger file whose size and time are as noted is not read again. COCO's features are
# 65 GB, which take minutes to read.
_LARGE = 64 << 20


def seal(manifest: Path, files: Iterable[Path]) -> None:
    """Writes the manifest of `files`, which lie in its folder or below it."""
    entries: dict[str, dict[str, Any]] = {}
    for file in sorted(files):
        state = file.stat()
        entry = {"bytes": state.st_size, "blake2b": file_digest(file)}
        if state.st_size > _LARGE:
            entry["modified_ns"] = state.st_mtime_ns
        entries[file.relative_to(manifest.parent).as_posix()] = entry
    write_json(manifest, {"files": entries})


def damage(manifest: Path) -> str | None:
    """What is wrong with the first file that is not as it was sealed; None where all are.

    A damaged or missing manifest is named like any other file.
    """
    try:
        entries = read_json(manifest, dict)["files"]
        for name, entry in entries.items():
            if fault := _fault(manifest.parent / name, entry):
                return fault
    except FileError as error:
        return str(error)
    except (KeyError, TypeError, AttributeError, OSError) as error:
        return f"{manifest} cannot be used ({type(error).__name__}: {error})"
    return None


def manifest_of(file: Path) -> Path:
    """The manifest of a single file, beside it."""
    return file.with_name(f"{file.name}.{MANIFEST}")


def is_whole(file: Path) -> bool:
    """Whether a single file is there as it was sealed."""
    return manifest_of(file).is_file() and damage(manifest_of(file)) is None


def _fault(file: Path, entry: dict[str, Any]) -> str | None:
    if not file.is_file():
        return f"{file} is missing"
    state = file.stat()
    if state.st_size != entry["bytes"]:
        return f"{file} has {state.st_size} bytes of {entry['bytes']}"
    if state.st_mtime_ns == entry.get("modified_ns"):
        return None
    if file_digest(file) != entry["blake2b"]:
        return f"{file} was changed after it was written"
    return None
