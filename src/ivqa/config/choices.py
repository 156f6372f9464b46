"""The groups, choices and keys of a command, read from the files in conf/ alone.

`folders` are those of `config_folders`, conf/ first; `config_name` is the command's own file there.
Imports neither PyTorch nor Lightning, so that --help and shell completion answer at once.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Quote, QuotedString, Transformer
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ivqa.config.short_forms import ALIASES, key_of, runs
from ivqa.errors import UserError
from ivqa.plug_ins import plug_ins
from ivqa.store.files import read_yaml

# What marks the file of a model that answers questions and can therefore be diagnosed.
_ANSWERS = ("shared/answerer", "ivqa.vqa.evaluation.VQABenchmark")
# Of a question generator that is trained here, and of a model that reads no images.
_ASKS, _BLIND = ("shared/questioner",), "image_features: []"
# Groups that people need most come first; the others follow in the order of the command's file.
_FIRST = ("model", "vqa", "reward", "data", "features", "task", "experiment", "callbacks")
_INDENT = 19
_WIDTH = 80


def conf_dir() -> Path:
    """The folder of configurations: in the package, or beside `src` where links do not work."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parents[1] / "conf"


def composed_choices(
    arguments: Sequence[str], folders: Sequence[Path], config_name: str
) -> DictConfig:
    """Composes a command's configuration from choices of files alone, to list the valid keys.

    It is not resolved. Sweeps over files are left out, and all choices if they do not compose.
    """
    groups = {path.name for folder in folders for path in folder.iterdir() if path.is_dir()}
    chosen = [
        item
        for item in arguments
        if "=" in item and "," not in item and key_of(item).partition("@")[0] in groups
    ]
    try:
        return _composed(chosen, folders, config_name)
    except HydraException:
        return _composed([], folders, config_name)


def composition_error(
    arguments: Sequence[str], folders: Sequence[Path], config_name: str
) -> Exception | None:
    """The error of Hydra for the first argument that does not compose; None if all do.

    The arguments are in Hydra's notation, without sweeps.
    """
    try:
        _composed(arguments, folders, config_name)
    except (HydraException, ValueError, OmegaConfBaseException) as error:
        return error
    return None


def _composed(arguments: Sequence[str], folders: Sequence[Path], config_name: str) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folders[0].absolute()), version_base="1.3"):
        return compose(config_name, [*search_path(folders), *arguments])


def first_of_sweep(argument: str) -> str:
    """The first value of a sweep over values, which composes without -m; others stay as they are.

    >>> first_of_sweep("model=mlb,mcb"), first_of_sweep("a=range(1,4)"), first_of_sweep("a=[1,2]")
    ('model=mlb', 'a=1', 'a=[1,2]')
    """
    try:
        parsed = OverridesParser.create().parse_override(argument)
    except HydraException:
        return argument
    if not parsed.is_sweep_override() or isinstance(parsed.value(), IntervalSweep):
        return argument
    first = next(iter(parsed.sweep_iterator(Transformer.encode)), "")
    return f"{argument.partition('=')[0]}={first}"


def search_path(folders: Sequence[Path]) -> list[str]:
    """The override that lets Hydra read more folders than the first; none where there is one."""
    added = [f"file://{folder.absolute()}" for folder in folders[1:]]
    quoted = (QuotedString(text=text, quote=Quote.single).with_quotes() for text in added)
    return [f"hydra.searchpath=[{','.join(quoted)}]"] if added else []


def leaf_keys(cfg: DictConfig) -> list[str]:
    """Dotted names of all keys at any depth: "trainer.max_epochs", and "trainer" itself."""
    container = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(container, dict)
    return _names(container)


def groups_of(conf_dir: Path, config_name: str) -> list[str]:
    """The groups of a command as a user writes them, in the order of its file.

    "vqa" stands for Hydra's model@vqa, "reward" for that of the policies, and "sweep" for sweep
    files of this command, if there are any.
    """
    short = {long: name for name, long in ALIASES.items()}
    found = [short.get(group, group) for group in _defaults(conf_dir, config_name)]
    if "vqa" in found:
        found.insert(found.index("vqa") + 1, "reward")
    if choices_of("sweep", [conf_dir], config_name):
        found.append("sweep")
    return list(dict.fromkeys(found))


def choices_of(group: str, folders: Sequence[Path], config_name: str) -> list[str]:
    """The choices of a group: names of files without their ending, sorted.

    For "vqa" they are models that answer questions, for "sweep" those of this command, and for
    "experiment" and "task" those whose first lines run this command, or no command of ivqa.

    Args:
        group: A group as a user writes it, or as Hydra does: "model", "vqa", "noise@noise.image";
            "sweep" for sweep files.
    """
    folder = ALIASES.get(group, group).partition("@")[0]
    files = {file.stem: file for place in folders for file in (place / folder).glob("*.yaml")}
    if group in ("experiment", "task"):
        return sorted(name for name, file in files.items() if runs(file, config_name))
    if group not in ("vqa", ALIASES["vqa"], "sweep"):
        return sorted(files)
    texts = {name: file.read_text() for name, file in sorted(files.items())}
    if group == "sweep":
        return [name for name, text in texts.items() if f"program: {config_name}.py" in text]
    return _marked(texts, _ANSWERS)


def generator_choices(folders: Sequence[Path]) -> list[str]:
    """The models that ask questions about images by their names alone, sorted.

    They need neither a VQA model, as policies do, nor a path.
    """
    files = {file.stem: file for place in folders for file in (place / "model").glob("*.yaml")}
    texts = {name: file.read_text() for name, file in sorted(files.items())}
    return [name for name in _marked(texts, _ASKS) if _BLIND not in texts[name]]


def _marked(texts: Mapping[str, str], marks: Sequence[str]) -> list[str]:
    """The names of the files that have one of the marks, or include a file that has."""
    found = {name for name, text in texts.items() if any(mark in text for mark in marks)}
    included = {name: set(re.findall(r"^  - (\w+)$", text, re.M)) for name, text in texts.items()}
    return [name for name in texts if name in found or included[name] & found]


def choices_page(conf_dir: Path, config_name: str, folders: Sequence[Path]) -> str:
    """Lists the choices of every group that has more than one, and the sweeps, on 80 columns."""
    groups = groups_of(conf_dir, config_name)
    ordered = [group for group in _FIRST if group in groups]
    ordered += [group for group in groups if group not in ordered]
    lines: list[str] = []
    for group in ordered:
        choices = choices_of(group, folders, config_name)
        if group == "model":
            # VQA models are choices of model= too, but are listed once.
            answering = choices_of("vqa", folders, config_name)
            choices = [*(name for name in choices if name not in answering), "and those of vqa="]
        # A sweep may be left out, so even a single one is a choice.
        if len(choices) > 1 or group == "sweep":
            lines += textwrap.wrap(
                ", ".join(choices),
                _WIDTH,
                initial_indent=f"  {group}=".ljust(_INDENT),
                subsequent_indent=" " * _INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def config_folders(conf_dir: Path, arguments: Sequence[str]) -> list[Path]:
    """The folders that Hydra reads: `conf_dir`, that of --config-dir, if given, those of plug-ins.

    Raises:
        UserError: Two of them have a file of the same name, and Hydra would not read the second.
    """
    folders = [conf_dir]
    for number, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        if flag in ("--config-dir", "-cd"):
            given = [value] if value else arguments[number + 1 :][:1]
            folders += [Path(item).absolute() for item in given]
    folders += plug_ins().values()
    for number, folder in enumerate(folders[1:], start=1):
        for file in folder.rglob("*.yaml"):
            name = file.relative_to(folder)
            if first := next((one for one in folders[:number] if (one / name).is_file()), None):
                raise UserError(
                    f"{file} would not be read, because {first / name} has the same name; rename it"
                )
    return folders


def _defaults(conf_dir: Path, name: str) -> Iterator[str]:
    """The groups in the defaults of a file, and in the files that it includes."""
    for entry in read_yaml(conf_dir / f"{name}.yaml", dict).get("defaults", []):
        if isinstance(entry, dict):
            yield from (str(key) for key in entry if not str(key).startswith("override "))
        elif entry != "_self_":
            yield from _defaults(conf_dir, entry)


def _names(node: dict[Any, Any], prefix: str = "") -> list[str]:
    keys = []
    for key, child in node.items():
        keys.append(f"{prefix}{key!s}")
        if isinstance(child, dict):
            keys += _names(child, f"{prefix}{key!s}.")
    return keys
