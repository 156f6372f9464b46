"""Which keys hold paths or sentences.

Their annotations are read from the source: imports would load PyTorch.
"""

import ast
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ivqa.data.given_pictures import picture_files
from ivqa.data.validation import check_root
from ivqa.store.files import check_folder

_PATHS = {"ExistingFile", "ExistingFolder", "Checkpoint", "Place"}
# Arguments of components, at any depth; a test compares them with the annotations.
ARGUMENTS = frozenset(
    {"cache_dir", "candidates", "entailments", "path", "root", "split_file", "weights"}
)


def is_path(key: str) -> bool:
    """Whether the value of a key is a path.

    >>> is_path("ckpt"), is_path("model.module.path"), is_path("seed"), is_path("path")
    (True, True, False, False)
    """
    outer, _, last = key.rpartition(".")
    named = key in command_paths() or key == "hydra.sweep.dir" or ".part_ckpt." in key
    return named or (bool(outer) and last in ARGUMENTS)


def command_paths() -> dict[str, bool]:
    """The keys of commands that are paths, and whether a key may hold a list of paths."""
    return _annotated(frozenset(_PATHS))


def command_sentences() -> dict[str, bool]:
    """The keys of commands that are sentences, and whether a key may hold a list of them."""
    return _annotated(frozenset({"FreeText"}))


def check_places(cfg: DictConfig) -> None:
    """Checks the pictures of image= or images=, or else the data root, and the artifact store.

    The tasks check the data too, once PyTorch is loaded.

    Raises:
        UserError: The data are not there, or the store cannot be one.
    """
    key = str(cfg.get("short_form"))
    if key in ("image", "images"):  # whose models may need no data
        if not OmegaConf.is_missing(cfg, key):
            picture_files(str(cfg[key]), key)
    elif (root := OmegaConf.select(cfg, "data.root")) and "://" not in str(root):
        check_root(Path(str(root)))
    if store := OmegaConf.select(cfg, "artifacts"):
        check_folder("artifacts", str(store))


@cache
def _annotated(types: frozenset[str]) -> dict[str, bool]:
    """The keys of commands whose annotation names a type, and whether it names Sequence too."""
    package = Path(__file__).parents[1]
    found = {}
    for file in (package / "config" / "keys.py", *(package / "tasks").rglob("*.py")):
        for schema in ast.walk(ast.parse(file.read_text())):
            if not isinstance(schema, ast.ClassDef) or not schema.name.endswith("Keys"):
                continue
            for key in schema.body:
                if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
                    names = {
                        node.id for node in ast.walk(key.annotation) if isinstance(node, ast.Name)
                    }
                    if names & types:
                        found[key.target.id] = "Sequence" in names
    return found
