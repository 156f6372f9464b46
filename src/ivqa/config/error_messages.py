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

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
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
    InterpolationResolutionError,
    OmegaConfBaseException,
)
from yaml import YAMLError

from ivqa.config.choices import (
    composed_choices,
    composition_error,
    config_folders,
    first_of_sweep,
    leaf_keys,
)
from ivqa.config.short_forms import ALIASES, JUDGES, key_of, shortened, task_keys, written_out
from ivqa.errors import UserError
from ivqa.plug_ins import is_of_plug_in

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
    """Whether the user can fix the error, so that its message alone is of use; others are bugs.

    If a component cannot be built, the error of its constructor decides.

    >>> is_user_error(UserError("seed=a: must be an integer")), is_user_error(ValueError("shapes"))
    (True, False)
    """
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return is_user_error(error.__cause__) or _absent_package(error.__cause__) is not None
    if not isinstance(error, UserError) and "Config group override must be" in str(error):
        return True  # Hydra raises a plain ValueError here
    if _is_of_memory(error):
        return True
    is_listed = isinstance(error, _USER_ERRORS) and not isinstance(error, _WRONG_ACCESS)
    return is_listed or is_disk_error(error)


def is_disk_error(error: BaseException) -> bool:
    """Whether a disk is full, over the user's quota or read-only."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def place_in_own_code(error: BaseException) -> str | None:
    """Finds where an error, or its cause, left the user's own code, such as the class of a reward.

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
    installed = any(Path(file).is_relative_to(folder) for folder in _INSTALLED)
    return not installed or is_of_plug_in(root)


def describe(
    error: Exception, arguments: Sequence[str], *, conf_dir: Path, config_name: str
) -> str:
    """Describes an error that the user can fix in one sentence, with the nearest valid names.

    Hydra raises an error for the first argument that does not compose; all others that do not are
    described too. The files that the arguments choose have the valid keys.
    """
    if isinstance(error, UserError):
        return " ".join(str(error).split())
    folders = config_folders(conf_dir, arguments)
    rest = [item for item in arguments if not item.startswith("-")]
    if {"-m", "--multirun"} & set(arguments):
        rest = list(map(first_of_sweep, rest))
    sentences: list[str] = []
    found: Exception | None = error
    while found is not None:
        sentence, argument, repaired = _described(found, rest, folders, config_name)
        sentences.append(sentence)
        if argument not in rest or sentence in sentences[:-1]:
            break
        place = rest.index(argument)
        rest[place : place + 1] = repaired
        found = composition_error(rest, folders, config_name)
    return "; ".join(sentences)


def _described(
    error: BaseException, arguments: Sequence[str], folders: Sequence[Path], config_name: str
) -> tuple[str, str, list[str]]:
    """Describes one error.

    Returns:
        The sentence, the argument that does not compose ("" for other errors), and what to try in
        its place: the choice that was meant, which decides about the keys of other arguments, or
        nothing.
    """
    text = str(error)
    if _is_of_memory(error):
        reason = text.splitlines()[0] if text else "MemoryError"
        return f"the memory does not suffice ({reason}); choose smaller sizes or batches", "", []
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        if package := _absent_package(error.__cause__):
            what = f"{_node(error)} needs a package that is not installed"
            return f"{what}; install it with: pip install {package}", "", []
        cause, *_ = _described(error.__cause__, arguments, folders, config_name)
        return f"{cause} (configuration node {_node(error)})", "", []
    if isinstance(error, MissingConfigException) and error.options:
        name = str(error.missing_cfg_file)
        # Hydra names the file that model@vqa=mlb chooses model/mlb.
        files = {f"{_group(item)}/{item.partition('=')[2]}": item for item in reversed(arguments)}
        argument = files.get(name, "")
        key, _, choice = (argument or name[::-1].replace("/", "=", 1)[::-1]).partition("=")
        near = difflib.get_close_matches(choice, error.options, n=1, cutoff=0.6)
        group = "judge" if f"@{JUDGES}." in key else _group(key)
        sentence = f"there is no {group}={choice}{_nearest(choice, error.options)}"
        return sentence, argument, [f"{key}={one}" for one in near]
    if isinstance(error, OverrideParseException):
        reason = text.splitlines()[0]
        hint = "" if "=" in str(error.override) else "; write KEY=VALUE"
        sentence = f"cannot read the override '{error.override}': {reason}{hint}"
        return sentence, str(error.override), []
    if "Config group override must be a string" in text:
        wrong = (item for item in arguments if item[:1] == "=" or _no_file(item, folders))
        if (argument := next(wrong, ""))[:1] == "=":
            return f"cannot read the override '{argument}'; write KEY=VALUE", argument, []
        remedy = f"choose a file of conf/{_group(argument)}, or leave it out"
        return f"{shortened(argument)}: {remedy}", argument, []
    if isinstance(error, OSError) and (is_disk_error(error) or isinstance(error, PermissionError)):
        return _about_file(error), "", []
    if isinstance(error, ConfigCompositionException):
        return _composition_error(error, arguments, folders=folders, config_name=config_name)
    if isinstance(error, InterpolationResolutionError):
        absent = re.search(r"Interpolation key '([^']+)' not found", text)
        if absent and (argument := _deletes(absent.group(1), arguments)):
            return f"{argument}: this key is needed; leave {argument} out", argument, []
        return f"{error.full_key} does not resolve ({text.splitlines()[0]})", "", []
    return " ".join(text.split()), "", []


def _absent_package(error: BaseException | None) -> str | None:
    """What to install where an import failed; Lightning's loggers say it themselves."""
    if not isinstance(error, ModuleNotFoundError) or str(error.name).startswith("ivqa"):
        return None
    advised = re.findall(r"pip install (?:-U )?('[^']+'|[\w.\[\]-]+)", str(error))
    return advised[-1] if advised else error.name


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
) -> tuple[str, str, list[str]]:
    """Describes an override of a key that does not exist, or of a node by another kind of value."""
    text, cause = str(error), str(error.__cause__)
    if merged := re.match(r"Error merging override (.*)", text):
        argument = merged.group(1)
        key = argument.partition("=")[0].lstrip("+~")
        reason = f"{cause.splitlines()[0]}; give one key, as in {key}.KEY=VALUE"
        return f"{argument}: {reason}", argument, []
    if ambiguous := re.match(r"Ambiguous value for argument '(.*)'", text):
        argument = ambiguous.group(1)
        key, _, values = argument.partition("=")
        reason = f"several values need -m, which runs a job for each; a list is {key}=[{values}]"
        return f"{argument}: {reason}", argument, [first_of_sweep(argument)]
    present = re.search(r"An item is already at '([^']+)'|Multiple values for ([^. ]+)", text)
    added = [item for item in arguments if item[:1] == "+" and item[:2] != "++"]
    doubled = present and (present.group(1) or present.group(2))
    if argument := next((item for item in added if key_of(item) == doubled), ""):
        return f"{argument}: this key is there; leave out the +", argument, [argument.lstrip("+")]
    found = re.search(r"Could not (?:override|find|delete|delete from config\.) '([^']+)'", text)
    if found is None:
        return " ".join(text.split()), "", []
    written = key = found.group(1)
    inner = re.search(r"full_key: (\S+)", cause)
    hint = ""
    if inner and inner.group(1).startswith(f"{key}."):
        hint = f" (to replace the whole node: ~{key} '+{key}={{_target_:CLASS,KEY:VALUE}}')"
        key = inner.group(1)
    argument = next((item for item in arguments if written in (key_of(item), item[1:])), "")
    if argument[:1] != "~" and (deletes := _deletes(key, arguments)):
        return f"{deletes}: {argument} needs this key; leave {deletes} out", deletes, []
    groups = [item.name for item in folders[0].iterdir() if item.is_dir()]
    if _group(key) in groups:
        lack = f"{config_name}.py has no such group beside the other choices"
        lack = "this file is not among those chosen" if argument[:1] == "~" else lack
        return f"{shortened(argument or key)}: {lack}", argument, []
    # Only the chosen files decide which keys exist: features=resnet50 has features.arch.
    known = leaf_keys(composed_choices(arguments, folders, config_name))
    valid = [*known, *groups, *ALIASES, *task_keys(folders[0], config_name)]
    if key in known and argument[:1] == "~":  # Hydra takes null for absent
        return f"{argument}: the value is null already; leave {argument} out", argument, []
    near = difflib.get_close_matches(key, [*groups, *ALIASES], n=1, cutoff=0.6)
    changes = "=" in argument and "." not in key
    repaired = [written_out(f"{name}={argument.partition('=')[2]}") for name in near if changes]
    return f"there is no configuration key '{key}'{_nearest(key, valid)}{hint}", argument, repaired


def _deletes(key: str, arguments: Sequence[str]) -> str:
    """The argument that deletes a key or a node around it; "" if there is none."""
    deleting = [item for item in arguments if item[:1] == "~"]
    return next((item for item in deleting if f"{key}.".startswith(f"{key_of(item)}.")), "")


def _group(argument: str) -> str:
    """The folder of conf/ from which an override chooses a file: "model" of model@vqa=mlb."""
    return key_of(argument).partition("@")[0]


def _no_file(argument: str, folders: Sequence[Path]) -> bool:
    """Whether an argument gives null, a number or a mapping where a group needs a file."""
    group, value = _group(argument), argument.partition("=")[2]
    if not group or not any((folder / group).is_dir() for folder in folders):
        return False
    parsed = OverridesParser.create().parse_override(f"key={value}").value()
    return not isinstance(parsed, str | QuotedString | list)


def _nearest(word: str, valid: Iterable[str]) -> str:
    """The end of a message: up to three similar names, or all valid ones."""
    candidates = sorted(set(valid))
    if word in candidates:
        return "; other jobs of the sweep have it"
    close = difflib.get_close_matches(word, candidates, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    shown = candidates if len(candidates) <= 30 else [key for key in candidates if "." not in key]
    return f"; valid are {', '.join(shown)}"


def _is_of_memory(error: BaseException) -> bool:
    """Whether the memory of the machine or of its accelerator was too small."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool({"MemoryError", "OutOfMemoryError"} & names) or "t allocate memory" in str(error)


def _node(error: InstantiationException) -> str:
    found = re.search(r"full_key: (\S+)", str(error))
    return found.group(1) if found else "at the top"
