"""Released weights: trained models of the embedded data set that are part of the package.

They are the tools of a diagnosis (image features, question generator, legality model). With them, a
diagnosis trains only the model that it examines. `manifest.json` records for each file of weights
the data, configuration and versions that it belongs to, and its scores; the weights are used only
where all three agree. `tools.release` writes the files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ivqa.store.digests import digest, file_digest
from ivqa.store.files import FileError, atomic_write, read_json, write_json
from ivqa.store.locks import folder_lock

SEED = 1
"""The seed of all released trainings."""

TRAINING_NAME = "training"
"""The name of what is released about the training data: features of pictures, and answers."""

FOLDER = Path(__file__).parent
_MANIFEST = FOLDER / "manifest.json"
_COMPONENT = "component"  # metadata key of the model description in a safetensors file


@dataclass(frozen=True)
class Released:
    """One file of released weights.

    Attributes:
        name: Name of the model.
        identity: The data and the configuration that the weights were trained for.
        code: Versions of the code that the weights were last scored with.
        scores: Scores by name.
        digest: Digest of the file's content.
    """

    name: str
    identity: Mapping[str, Any]
    code: Mapping[str, int | str]
    scores: Mapping[str, float]
    digest: str

    @property
    def file(self) -> Path:
        """Path of the file of weights."""
        return FOLDER / f"{self.name}.safetensors"

    def weights(self) -> dict[str, Tensor]:
        """Loads the weights.

        Returns:
            Tensors by name on the CPU; floating-point tensors are float32.

        Raises:
            FileError: The file is missing or differs from the released one.
        """
        if not self.file.is_file() or file_digest(self.file) != self.digest:
            raise FileError(
                f"{self.file} is missing or was changed; install ivqa again or set pretrained=false"
            )
        return {
            name: value.float() if value.is_floating_point() else value
            for name, value in load_file(self.file).items()
        }

    def component(self) -> Any:
        """The description of the model that `release` stored with the weights."""
        with safe_open(self.file, "pt") as content:
            return json.loads(content.metadata()[_COMPONENT])


def find(name: str, identity: Mapping[str, Any], code: Mapping[str, int | str]) -> Released | None:
    """Looks up released weights for given data, configuration and code.

    Args:
        name: Name of the model, as in conf/.
        identity: The data and the configuration that need weights, as JSON values.
        code: Versions of the code that will use the weights.

    Returns:
        The released weights, or None if none fit.
    """
    released = catalogue().get(name)
    if released is None or released.code != code:
        return None
    return released if digest(released.identity) == digest(identity) else None


@cache
def catalogue() -> dict[str, Released]:
    """All released weights by model name, from the manifest."""
    if not _MANIFEST.is_file():
        return {}
    entries = read_json(_MANIFEST, dict)
    return {name: Released(name=name, **entry) for name, entry in entries.items()}


def release(
    name: str,
    weights: Mapping[str, Tensor],
    component: Any,
    *,
    identity: Mapping[str, Any],
    code: Mapping[str, int | str],
    scores: Mapping[str, float],
) -> Released:
    """Writes weights into the package and records them in the manifest.

    Args:
        name: Name of the model.
        weights: Tensors by name.
        component: Description of the model as a JSON value, see `Released.component`.
        identity: The data and the configuration that the weights were trained for.
        code: Versions of the code that the weights were scored with.
        scores: Scores by name.

    Returns:
        The entry of the manifest.
    """
    file = FOLDER / f"{name}.safetensors"
    with atomic_write(file) as draft:
        save_file(
            {key: value.contiguous() for key, value in weights.items()},
            draft,
            {_COMPONENT: json.dumps(component)},
        )
    released = Released(name, dict(identity), code, dict(scores), file_digest(file))
    note(released)
    return released


def note(released: Released) -> None:
    """Writes an entry of the manifest and replaces an earlier one of the same name."""
    with folder_lock(FOLDER):
        entries = read_json(_MANIFEST, dict) if _MANIFEST.is_file() else {}
        entry = {key: value for key, value in vars(released).items() if key != "name"}
        write_json(_MANIFEST, dict(sorted({**entries, released.name: entry}.items())))
    (FOLDER / ".lock").unlink(missing_ok=True)
    catalogue.cache_clear()
