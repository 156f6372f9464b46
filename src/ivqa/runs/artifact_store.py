"""The artifact store: trained models and features, reused by commands with the same inputs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ivqa.data.validation import shown
from ivqa.files import FileError, digest, locked, read_json, write_json


class ArtifactStore:
    """Folders below one root, one for each component, named by a digest of its identity.

    Args:
        root: The folder of the store; `~` is expanded. It is created on first use.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()

    def folder(self, kind: str, name: str, identity: Mapping[str, Any]) -> Path:
        """The folder of a component; it need not exist.

        Args:
            kind: The kind of component, such as "models".
            name: The name of the component, such as "mlb".
            identity: Everything that determines the component, as JSON values: fingerprints of
                data and features, configuration, code, seed.

        Returns:
            `root`/`kind`/`name`-DIGEST.
        """
        return self.root / kind / f"{name}-{digest(identity)}"

    @contextmanager
    def building(self, folder: Path, identity: Mapping[str, Any]) -> Iterator[None]:
        """Locks a folder while one process builds its component; other processes wait.

        Args:
            folder: The folder of the component; it is created.
            identity: Written to identity.json in the folder.
        """
        with locked(folder):
            write_json(folder / "identity.json", identity)
            yield


def read_metrics(file: Path) -> dict[str, float]:
    """Reads the metrics.json of a run.

    Args:
        file: The file.

    Returns:
        Values by name.

    Raises:
        FileError: The file is damaged, or a value is not a number.
    """
    metrics = read_json(file, dict)
    for name, value in metrics.items():
        if type(value) not in (int, float):
            raise FileError(f"{file}: {name} must be a number, not {shown(value)}; run it again")
    return metrics
