"""The artifact store: trained models and features, reused by commands with the same inputs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ivqa.store.digests import digest
from ivqa.store.files import copy_file, read_json, write_json
from ivqa.store.integrity import MANIFEST, first_fault, write_manifest
from ivqa.store.locks import folder_lock

_ORIGIN = "origin.json"  # where a stored model comes from, and how long it was trained


class ArtifactStore:
    """Folders below one root, one for each component, named by a digest of its identity.

    Args:
        root: The folder of the store; `~` is expanded. It is created on first use.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()

    def folder(self, kind: str, name: str, identity: Mapping[str, Any]) -> Path:
        """The folder `root`/`kind`/`name`-DIGEST of a component; it need not exist.

        A kind is "models"; a name is "mlb". `identity` is everything that determines the component,
        as JSON values: cache keys of data and features, configuration, code, seed.
        """
        return self.root / kind / f"{name}-{digest(identity)}"

    @contextmanager
    def building(self, folder: Path, identity: Mapping[str, Any]) -> Iterator[None]:
        """Makes and locks a folder while one process builds its component; other processes wait.

        `identity` is written to identity.json in the folder.
        """
        with folder_lock(folder):
            if not (folder / "identity.json").is_file():
                write_json(folder / "identity.json", identity)
            yield

    @staticmethod
    def keep(folder: Path, checkpoint: Path, run_dir: Path, seconds: float) -> None:
        """Copies a trained model into its folder, which is complete from then on.

        The checkpoint becomes model.ckpt. `run_dir` wrote it, after training for `seconds`.
        """
        origin, model = folder / _ORIGIN, folder / "model.ckpt"
        write_json(origin, {"run": str(run_dir), "seconds": seconds})
        copy_file(checkpoint, model)
        write_manifest(folder / MANIFEST, [origin, model])

    @staticmethod
    def fault(folder: Path) -> str | None:
        """A sentence about the first missing or changed file of a component, or None."""
        return first_fault(folder / MANIFEST)


def training_seconds(checkpoint: Path) -> dict[str, float]:
    """Reads how long a stored model was trained: {"train/seconds"}; empty for other files."""
    file = checkpoint.with_name(_ORIGIN)
    origin = read_json(file, dict) if file.is_file() else {}
    seconds = origin.get("seconds")
    return {"train/seconds": seconds} if isinstance(seconds, float) else {}


def training_log(checkpoint: Path) -> Path:
    """The metrics.csv of the run that wrote a checkpoint; it need not exist."""
    if checkpoint.is_dir():  # the store itself stands for what is not trained
        return checkpoint / "metrics.csv"
    inside = checkpoint.parent / "run" / "metrics.csv"
    return inside if inside.is_file() else checkpoint.parent.parent / "metrics.csv"
