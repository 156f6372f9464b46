"""The artifact store: what was trained or computed once, found again by what went into it."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console


class ArtifactStore:
    """Folders under `root`, one a component, named by a hash of all that determines it."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()

    def folder(self, kind: str, name: str, identity: Mapping[str, Any]) -> Path:
        """Where the component `name` with this identity lives (it need not exist).

        identity: JSON values only: data and feature fingerprints, configuration, seed.
        """
        return self.root / kind / f"{name}-{digest(identity)}"

    @contextmanager
    def building(self, folder: Path, identity: Mapping[str, Any]) -> Iterator[None]:
        """Holds the folder for one process (the others wait), and notes its identity in it."""
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        try:
            held = lock.acquire(blocking=False)
        except Timeout:
            Console().print(f"Waiting for the process that makes {folder}", soft_wrap=True)
            held = lock.acquire()
        with held:
            write_json(folder / "identity.json", identity)
            yield


def digest(identity: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that stand for `identity`, whatever the order of its keys."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Writes `value` whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes `text` whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def copy_file(source: Path, target: Path) -> None:
    """Copies a file whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, draft)
    draft.replace(target)
