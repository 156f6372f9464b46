"""The artifact store: what was trained or computed once, found again by what went into it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ivqa.data.validation import shown
from ivqa.files import FileError, digest, locked, read_json, write_json


class ArtifactStore:
    """Folders under `root`, one a component, named by a hash of all that determines it."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()

    def folder(self, kind: str, name: str, identity: Mapping[str, Any]) -> Path:
        """Where the component `name` with this identity lives (it need not exist).

        identity: JSON values only: data and feature fingerprints, configuration, code, seed.
        """
        return self.root / kind / f"{name}-{digest(identity)}"

    @contextmanager
    def building(self, folder: Path, identity: Mapping[str, Any]) -> Iterator[None]:
        """Holds the folder for one process (the others wait), and notes its identity in it."""
        with locked(folder):
            write_json(folder / "identity.json", identity)
            yield


def read_metrics(file: Path) -> dict[str, float]:
    """The metrics.json of a run. Raises FileError where it is damaged or holds other values."""
    metrics = read_json(file, dict)
    for name, value in metrics.items():
        if type(value) not in (int, float):
            raise FileError(f"{file}: {name} must be a number, not {shown(value)}; run it again")
    return metrics
