"""The keys that hold paths, as the source says and as the annotations do."""

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hydra.utils import get_object
from omegaconf import OmegaConf

from ivqa.config.keys import CommandKeys, command_keys
from ivqa.config.model_sources import PretrainedKeys
from ivqa.config.path_keys import ARGUMENTS, command_paths
from ivqa.ranges import Checkpoint, ExistingFile, ExistingFolder, Weights
from ivqa.store.signatures import arguments_of

CONF = Path(__file__).parents[2] / "conf"
COMMANDS = re.findall(
    r"_target_: (ivqa\.tasks\.[\w.]+)",
    " ".join(file.read_text() for file in CONF.rglob("*.yaml")),
)


def _parts(annotation: Any) -> list[Any]:
    inner = getattr(annotation, "__args__", ())
    return [annotation, *(part for one in inner for part in _parts(one))]


@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.endswith("Settings")])
def test_the_source_names_the_paths_of_each_task(command: str) -> None:
    kinds = (ExistingFile, ExistingFolder, Checkpoint)
    keys = command_keys(OmegaConf.create({"command": {"_target_": command}}))
    assert keys.keys() >= get_type_hints(CommandKeys).keys()
    for key, annotation in keys.items():
        paths = [one for one in _parts(annotation) if any(one == kind for kind in kinds)]
        need_not_exist = key in ("output_dir", "artifacts", "image", "images")
        assert (key in command_paths()) == (bool(paths) or need_not_exist), key


def test_arguments_that_are_paths_have_the_names_that_the_command_line_knows() -> None:
    texts = [file.read_text() for file in CONF.rglob("*.yaml")]
    names = set(get_type_hints(PretrainedKeys)) & {"path", "candidates"}
    for target in set(re.findall(r"_target_: *(ivqa\.[\w.]+)", " ".join(texts))):
        found = get_object(target)
        if inspect.isclass(found) or inspect.ismethod(found):
            for name, (_, annotation) in arguments_of(found).items():
                kinds = [ExistingFile, ExistingFolder, Weights]
                if any(part == kind for part in _parts(annotation) for kind in kinds):
                    names.add(name)
    assert names <= ARGUMENTS
