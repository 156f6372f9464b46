"""Lightning's checkpoints, written atomically and with a list of their contents."""

import os
from pathlib import Path
from typing import Any

from pytorch_lightning.plugins.io import TorchCheckpointIO

from ivqa.store.weights import read_weights, with_contents, write_weights


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint to a temporary file in its folder and renames it.

    Lightning's own temporary file is in the system's temporary folder. Moving it to another disk
    copies it, and a kill during the copy leaves a damaged checkpoint.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Writes a checkpoint completely or not at all."""
        write_weights(path, with_contents(checkpoint))

    def load_checkpoint(self, path: str | Path, *args: Any, **options: Any) -> dict[str, Any]:
        """Reads a checkpoint to the CPU; the paths in it are those of its folder now.

        In a run directory that was moved, Lightning's ModelCheckpoint would forget the best epoch.
        """
        checkpoint = read_weights(path, "a Lightning checkpoint")
        folder = os.path.realpath(Path(path).parent)
        callbacks = checkpoint.get("callbacks", {})
        for name, state in callbacks.items():
            earlier = str(state.get("dirpath", ""))
            if earlier != folder and Path(earlier).name == Path(folder).name:
                callbacks[name] = _moved(state, earlier, folder)
        return checkpoint

    def remove_checkpoint(self, path: str | Path) -> None:
        """Deletes a file; a path with `..`, a folder or an address stays as it is.

        ModelCheckpoint reads from a checkpoint what it may delete, and checks only that the path
        begins with its own folder.
        """
        file = Path(path)
        if ".." not in file.parts and file.is_file():
            file.unlink()


def _moved(value: Any, earlier: str, folder: str) -> Any:
    """Replaces the folder at the beginning of all texts in nested dicts, keys included."""
    if isinstance(value, dict):
        pairs = value.items()
        return {_moved(k, earlier, folder): _moved(v, earlier, folder) for k, v in pairs}
    is_inside = isinstance(value, str) and value.startswith(earlier)
    return folder + value[len(earlier) :] if is_inside else value
