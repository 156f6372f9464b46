"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to a sibling of `path` and renames it, so that a kill leaves the old file.

    Folders above `path` are made. The sibling is removed where writing fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
