"""Manifests of stored files: sizes and digests that reveal damage when the files are opened.

A manifest is written after the files that it lists. If it exists, the files were complete;
`first_fault` compares them with it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ivqa.store.digests import file_digest
from ivqa.store.files import FileError, read_json, write_json

MANIFEST = "integrity.json"
"""File name of the manifest of a folder."""

# Bytes; a larger file with the recorded size and modification time is not read again, because
# reading the features of COCO (65 GB) takes minutes.
_LARGE = 64 << 20


def write_manifest(manifest: Path, files: Iterable[Path]) -> None:
    """Writes a manifest of complete files, which are in its folder or below it."""
    entries: dict[str, dict[str, Any]] = {}
    for file in sorted(files):
        state = file.stat()
        entry = {"bytes": state.st_size, "blake2b": file_digest(file)}
        if state.st_size > _LARGE:
            entry["modified_ns"] = state.st_mtime_ns
        entries[file.relative_to(manifest.parent).as_posix()] = entry
    write_json(manifest, {"files": entries})


def first_fault(manifest: Path) -> str | None:
    """Compares the files of a manifest with their recorded sizes and digests.

    Returns:
        A sentence about the first file that differs, which may be the manifest itself; None if all
        files are unchanged.
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
    """The path of the manifest of a single file: FILE.integrity.json in the same folder."""
    return file.with_name(f"{file.name}.{MANIFEST}")


def is_intact(file: Path) -> bool:
    """Whether a single file exists and is unchanged since its manifest was written."""
    return manifest_of(file).is_file() and first_fault(manifest_of(file)) is None


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
