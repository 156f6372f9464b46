"""Released weights: models of the embedded data that come with the package, trained.

They are the instrument of a diagnosis (image features, question generator, legality model), so
that only what is diagnosed has to be trained. `manifest.json` says for which data, configuration
and code each file of weights is, and what it scored; it is used for no other.
`ivqa.tasks.release` makes them.
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

from ivqa.files import FileError, digest, file_digest, locked, read_json, write_json, written

FOLDER = Path(__file__).parent
_MANIFEST = FOLDER / "manifest.json"
_COMPONENT = "component"  # the key of the weights' description in a file's metadata


@dataclass(frozen=True)
class Released:
    """One file of released weights.

    name: of the model. identity: the data and configuration it was trained for. code: the digest of
    the code that it was last scored with. scores: by name. digest: of the file's content.
    """

    name: str
    identity: Mapping[str, Any]
    code: str
    scores: Mapping[str, float]
    digest: str

    @property
    def file(self) -> Path:
        """The weights."""
        return FOLDER / f"{self.name}.safetensors"

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, float32 on the CPU.

        Raises:
            FileError: The file is not the one that was released.
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
        """What the weights say about themselves, as stored by `release`."""
        with safe_open(self.file, "pt") as content:
            return json.loads(content.metadata()[_COMPONENT])


def find(name: str, identity: Mapping[str, Any], code: str) -> Released | None:
    """The released weights of the model `name`, where they fit; else None.

    Args:
        name: Of the model, as in conf/.
        identity: The data and the configuration that weights are wanted for, as JSON values.
        code: The digest of the code that will run them.
    """
    released = catalogue().get(name)
    if released is None or released.code != code:
        return None
    return released if digest(released.identity) == digest(identity) else None


@cache
def catalogue() -> dict[str, Released]:
    """All released weights by name."""
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
    code: str,
    scores: Mapping[str, float],
) -> Released:
    """Writes weights into the package and notes them in the manifest; returns what was noted."""
    file = FOLDER / f"{name}.safetensors"
    with written(file) as draft:
        save_file(
            {key: value.contiguous() for key, value in weights.items()},
            draft,
            {_COMPONENT: json.dumps(component)},
        )
    released = Released(name, dict(identity), code, dict(scores), file_digest(file))
    note(released)
    return released


def note(released: Released) -> None:
    """Writes an entry of the manifest, in place of the one of that name."""
    with locked(FOLDER):
        entries = read_json(_MANIFEST, dict) if _MANIFEST.is_file() else {}
        entry = {key: value for key, value in vars(released).items() if key != "name"}
        write_json(_MANIFEST, dict(sorted({**entries, released.name: entry}.items())))
    (FOLDER / ".lock").unlink(missing_ok=True)
    catalogue.cache_clear()
