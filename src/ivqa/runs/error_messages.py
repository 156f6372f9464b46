"""Errors that the user can fix, described in one sentence with the nearest valid names."""

import difflib
import errno
import os
import re
import shutil
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigIndexError,
    ConfigKeyError,
    ConfigTypeError,
    OmegaConfBaseException,
)
from yaml import YAMLError

from ivqa.errors import UserError
from ivqa.runs.config_choices import composed_choices, config_folders, leaf_keys
from ivqa.runs.short_forms import ALIASES, key_of, task_keys

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
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # full, over the quota, read-only
_INSTALLED = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
# The code reads a key that the composed configuration lacks: a bug, although OmegaConf raises it.
_WRONG_ACCESS = (ConfigAttributeError, ConfigKeyError, ConfigIndexError, ConfigTypeError)


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
    is_listed = isinstance(error, _USER_ERRORS) and not isinstance(error, _WRONG_ACCESS)
    return is_listed or is_disk_error(error)


def is_disk_error(error: BaseException) -> bool:
    """Whether a disk is full, over the user's quota or read-only."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def place_in_own_code(error: BaseException) -> str | None:
    """Finds where an error left the user's own code, such as the class of a reward.

    Args:
        error: The error; its causes are searched too.

    Returns:
        "MODULE.CLASS.METHOD (FILE:LINE)" and the error itself, for the innermost frame outside of
        ivqa and of installed libraries; None if there is none.
    """
    chain: BaseException | None = error
    while chain is not None:
        frames = [frame for frame, _ in walk_tb(chain.__traceback__) if _is_own(frame)]
        if frames:
            line = next(at for frame, at in walk_tb(chain.__traceback__) if frame is frames[-1])
            code, module = frames[-1].f_code, frames[-1].f_globals.get("__name__")
            said = " ".join(f"{type(chain).__name__}: {chain}".split())
            return f"{module}.{code.co_qualname} ({code.co_filename}:{line}) raised {said}"
        chain = chain.__cause__ or chain.__context__
    return None


def _is_own(frame: FrameType) -> bool:
    root = str(frame.f_globals.get("__name__")).partition(".")[0]
    if root in ("ivqa", "hydra_plugins") or not os.path.isabs(file := frame.f_code.co_filename):
        return False  # the code of <string> and <frozen importlib> is not in a file
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


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
        # The message does not name the group; null is the likely mistake.
        without = [item for item in arguments if (conf_dir / key_of(item)).is_dir() and "=" in item]
        group = next((item for item in without if item.endswith("=null")), without[-1])
        return f"{group}: choose a file of conf/{key_of(group)}"
    if isinstance(error, OSError) and (is_disk_error(error) or isinstance(error, PermissionError)):
        return _about_file(error)
    if isinstance(error, YAMLError):
        return " ".join(str(error).split())
    text = str(error)
    if isinstance(error, ConfigCompositionException):
        folders = config_folders(conf_dir, arguments)
        return _composition_error(error, arguments, folders=folders, config_name=config_name)
    return text


def _about_file(error: OSError) -> str:
    """A file that could not be read or written, why, and the remedy."""
    file = str(error.filename or "a file of the run")
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, PermissionError):
        return f"{file}: {reason}; change its permissions, or choose another folder"
    if error.errno == errno.EROFS:
        return f"{file}: {reason}; choose a folder that you may write"
    place = next((one for one in Path(file).absolute().parents if one.is_dir()), Path())
    free = f"{shutil.disk_usage(place).free / 1e6:,.0f} MB are free"
    needed = "".join(f"{note}, " for note in getattr(error, "__notes__", ()))
    return f"{file}: {reason} ({needed}{free}); make room on the disk"


def _composition_error(
    error: ConfigCompositionException,
    arguments: Sequence[str],
    *,
    folders: Sequence[Path],
    config_name: str,
) -> str:
    """Describes an override of a key that does not exist, or of a node by another kind of value."""
    text, cause = str(error), str(error.__cause__)
    if merged := re.match(r"Error merging override (.*)", text):
        key = merged.group(1).partition("=")[0].lstrip("+~")
        return f"{merged.group(1)}: {cause.splitlines()[0]}; give one key, as in {key}.KEY=VALUE"
    found = re.search(r"Could not (?:override|find|delete from config\.) '([^']+)'", text)
    if found is None:
        return text
    key = found.group(1).split("@")[0]
    inner = re.search(r"full_key: (\S+)", cause)
    hint = ""
    if inner and inner.group(1).startswith(f"{key}."):
        hint = f" (to replace the whole node, name its class: {key}={{_target_:CLASS,KEY:VALUE}})"
        key = inner.group(1)
    conf_dir = folders[0]
    groups = [item.name for item in conf_dir.iterdir() if item.is_dir()]
    # Only the chosen files decide which keys exist: features=resnet50 has features.arch.
    known = leaf_keys(composed_choices(arguments, folders, config_name))
    valid = [*known, *groups, *ALIASES, *task_keys(conf_dir, config_name)]
    return f"there is no configuration key '{key}'{_nearest(key, valid)}{hint}"


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
