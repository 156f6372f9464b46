"""Hydra's command line with one-sentence errors, suggestions for misspelt names and resume=."""

import difflib
import errno
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import hydra
import wandb
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigIndexError,
    ConfigKeyError,
    ConfigTypeError,
    OmegaConfBaseException,
)
from rich.console import Console
from yaml import YAMLError

from ivqa.errors import UserError
from ivqa.files import read_yaml
from ivqa.runs.config_checks import check_config, leaf_keys, reference_config
from ivqa.runs.memory import keep_freed_memory
from ivqa.runs.short_forms import expanded

# Keys whose value is a path, beside those that contain `.path` or `.part_ckpt.`; the values of
# _LISTS may also be lists of paths in brackets.
_LISTS = {"predictions"}
_PATHS = _LISTS | {
    *("resume", "ckpt", "output_dir", "data.root", "data.cache_dir", "artifacts", "questions"),
    *("human", "annotations", "shards", "features.weights", "model.candidates", "vqa.candidates"),
    "hydra.sweep.dir",
}

# Errors that the user can fix: ours, those of the machine, and overrides that do not compose.
_USER_ERRORS = (
    UserError,
    PermissionError,
    NotADirectoryError,
    ConnectionError,
    HydraException,
    OmegaConfBaseException,
    YAMLError,
)
# The code reads a key that the composed configuration lacks: a bug, although OmegaConf raises it.
_WRONG_ACCESS = (ConfigAttributeError, ConfigKeyError, ConfigIndexError, ConfigTypeError)


def entry_point(conf_dir: Path, config_name: str) -> None:
    """Composes the configuration from the command line and runs its task.

    Exits with status 1 after an error. An error that the user can fix is one sentence on stderr;
    IVQA_TRACEBACK=1 adds its traceback. Any other error is a bug and shows its traceback.

    Args:
        conf_dir: The folder of configuration files.
        config_name: The command's own file there, without its ending.
    """
    keep_freed_memory()
    # Hydra then raises errors instead of printing a shortened traceback and exiting.
    os.environ["HYDRA_FULL_ERROR"] = "1"

    def fail(error: Exception) -> NoReturn:
        by_user = is_user_error(error)
        if not by_user or os.environ.get("IVQA_TRACEBACK") == "1":
            traceback.print_exception(error)
        if by_user:
            _stop(describe(error, sys.argv[1:], conf_dir=conf_dir, config_name=config_name), 1)
        _stop(f"{type(error).__name__}: this is a bug in ivqa, please report it with the above", 1)

    def job(cfg: DictConfig) -> float | None:
        try:
            return run_task(cfg)
        except Exception as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise  # Hydra reports it and runs the other jobs of the sweep
            fail(error)
        finally:
            if wandb.run is not None:
                wandb.finish()  # jobs of a multirun share a process: one W&B run each

    try:
        sys.argv[1:] = expanded(command_line(sys.argv[1:]), conf_dir, config_name)
        hydra.main(version_base="1.3", config_path=str(conf_dir), config_name=config_name)(job)()
    except KeyboardInterrupt:
        _stop(
            "interrupted; written files are kept, and resume=DIR continues from the last "
            "checkpoint",
            130,
        )
    except Exception as error:
        fail(error)


def run_task(cfg: DictConfig) -> float:
    """Checks the configuration and runs its task.

    Args:
        cfg: The composed configuration.

    Returns:
        The headline metric of the task, for sweepers.

    Raises:
        UserError: The configuration is invalid; lists all faults before any work starts.
    """
    check_config(cfg)
    # The directory that Hydra chose: in a multirun it numbers the directories of the jobs.
    cfg.output_dir = HydraConfig.get().runtime.output_dir
    return instantiate(cfg.command)(cfg)


def is_user_error(error: BaseException) -> bool:
    """Whether the user can fix the error; any other error is a bug.

    Args:
        error: The error. If a component cannot be built, the error of its constructor decides.

    Returns:
        True if the message alone is of use to the user.

    >>> is_user_error(UserError("seed=a: must be an integer")), is_user_error(ValueError("shapes"))
    (True, False)
    """
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return is_user_error(error.__cause__)
    if not isinstance(error, UserError) and "Config group override must be" in str(error):
        return True  # Hydra raises a plain ValueError here
    is_disk_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    is_listed = isinstance(error, _USER_ERRORS) and not isinstance(error, _WRONG_ACCESS)
    return is_listed or is_disk_full


def command_line(arguments: list[str]) -> list[str]:
    """Translates the arguments of a command to Hydra's overrides.

    `resume=DIR` restores the overrides of that run, before the new ones, and its directory. With
    -m, `output_dir=DIR` is the directory of the sweep, with one numbered folder for each job.

    Args:
        arguments: Arguments of the command line.

    Returns:
        The overrides, with paths quoted for Hydra (`quoted_path`).

    Raises:
        UserError: DIR holds no run, or no checkpoint to continue from.
    """
    multirun = bool({"-m", "--multirun"} & set(arguments))
    resume = _path(arguments, "resume")
    if resume not in (None, "null"):
        run_dir = Path(str(resume))
        if not (run_dir / "config.yaml").is_file():
            raise UserError(f"resume={run_dir}: no run was started there (config.yaml is missing)")
        progress = (Path("checkpoints") / "last.ckpt", Path("progress.json"))
        if not any((run_dir / file).is_file() for file in progress):
            raise UserError(
                f"resume={run_dir}: nothing to resume, the run stopped before its first "
                "checkpoint; start it again without resume="
            )
        stored = read_yaml(run_dir / "overrides.yaml", list)
        earlier = [str(item) for item in stored if _key(str(item)) not in ("resume", "output_dir")]
        arguments = [*earlier, *arguments, f"output_dir={run_dir}"]
    elif multirun and (output_dir := _path(arguments, "output_dir")):
        kept = [argument for argument in arguments if _key(argument) != "output_dir"]
        arguments = [*kept, f"hydra.sweep.dir={output_dir}"]
    return [quoted_path(argument, multirun=multirun) for argument in arguments]


def quoted_path(argument: str, *, multirun: bool = False) -> str:
    """Quotes the value of an override that is a path, if Hydra's grammar requires it.

    A path may then contain = [ ] , quotes and letters beyond ASCII. Values that Hydra reads as
    text or null stay unchanged, with their quotes and escapes, and so do lists. With -m a comma
    separates the values of a sweep; a path with commas then needs its own quotes: "ckpt='a,b'".

    Args:
        argument: An argument of the command line.
        multirun: Whether the command line has -m.

    Returns:
        The override with a quoted value, or unchanged.

    >>> quoted_path("data.root=/data/a=b [1]"), quoted_path("model=mlb"), quoted_path("ckpt='a b'")
    ("data.root='/data/a=b [1]'", 'model=mlb', "ckpt='a b'")
    """
    key, equals, value = argument.partition("=")
    name = key.lstrip("+")
    is_path = name in _PATHS or name.endswith(".path") or ".part_ckpt." in name
    is_list = name in _LISTS and value.startswith("[")
    is_sweep = multirun and name != "hydra.sweep.dir" and "," in value
    if not is_path or not equals or value in ("", "null") or is_list or is_sweep:
        return argument
    if _text(value) is not None:
        return argument
    return f"{key}={QuotedString(text=value, quote=Quote.single).with_quotes()}"


def describe(
    error: Exception, arguments: Sequence[str], *, conf_dir: Path, config_name: str
) -> str:
    """Describes an error in one sentence, with the nearest valid names for a misspelt name.

    Args:
        error: An error that the user can fix.
        arguments: Arguments of the command line; the files that they choose have the valid keys.
        conf_dir: The folder of configuration files.
        config_name: The command's own file there, without its ending.

    Returns:
        The sentence, without a line break.
    """
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return f"{error.__cause__} (configuration node {_node(error)})"
    if isinstance(error, MissingConfigException) and error.options:
        name = str(error.missing_cfg_file)
        choice, group = Path(name).name, str(Path(name).parent)
        return f"there is no {group}={choice}{_nearest(choice, error.options)}"
    if isinstance(error, OverrideParseException):
        return f"cannot read the override '{error.override}': {str(error).splitlines()[0]}"
    if "Config group override must be a string" in str(error):  # the message lacks the key
        without = [item for item in arguments if (conf_dir / _key(item)).is_dir() and "=" in item]
        group = next((item for item in without if item.endswith("=null")), without[-1])
        return f"{group}: choose a file of conf/{_key(group)}"
    if isinstance(error, YAMLError):
        return " ".join(str(error).split())
    text = str(error)
    found = re.search(r"Could not override '([^']+)'", text)
    found = found or re.search(r"Could not find '([^']+)'", text)
    if isinstance(error, ConfigCompositionException) and found:
        key = found.group(1).split("@")[0]
        groups = [item.name for item in conf_dir.iterdir() if item.is_dir()]
        choices = [item for item in arguments if _key(item) in groups and "," not in item]
        known = leaf_keys(reference_config(conf_dir, config_name, choices))
        return f"there is no configuration key '{key}'{_nearest(key, [*known, *groups])}"
    return text


def _nearest(word: str, valid: Iterable[str]) -> str:
    """The end of a message: up to three similar names, or all valid ones."""
    candidates = sorted(set(valid))
    close = difflib.get_close_matches(word, candidates, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    shown = candidates if len(candidates) <= 30 else [key for key in candidates if "." not in key]
    return f"; valid are {', '.join(shown)}"


def _node(error: InstantiationException) -> str:
    found = re.search(r"full_key: (\S+)", str(error))
    return found.group(1) if found else "at the top"


def _key(argument: str) -> str:
    return argument.split("=", 1)[0].lstrip("+~")


def _path(arguments: Iterable[str], key: str) -> str | None:
    """The value of the last override of `key`, without Hydra's quotes; None without one."""
    values = [item.split("=", 1)[1] for item in arguments if "=" in item and _key(item) == key]
    return (_text(values[-1]) or values[-1]) if values else None


def _text(value: str) -> str | None:
    """The text that Hydra parses from a value; None if it is not a text."""
    try:
        parsed = OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:
        return None
    if isinstance(parsed, QuotedString):
        return parsed.text
    return parsed if isinstance(parsed, str) else None


def _stop(message: str, status: int) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"[bold red]error:[/] {_escape(message)}"
    )
    sys.exit(status)


def _escape(message: str) -> str:
    return message.replace("[", r"\[")
