"""Which runs can continue, and the commands of runs as a user writes them. Imports no PyTorch."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from ivqa.config.short_forms import key_of, shortened
from ivqa.config.trust import targets
from ivqa.errors import UserError
from ivqa.plug_ins import is_installed
from ivqa.store.files import FileError, read_yaml

PROGRESS = (Path("checkpoints") / "last.ckpt", Path("progress.json"), Path("parts"))
"""Files and folders of a run directory, of which a run that can continue has at least one."""

_COMMANDS = ("train", "evaluate", "diagnose")


def check_command(run_dir: Path, config_name: str) -> None:
    """Raises UserError unless a run was started by this command ("train" for train.py)."""
    earlier = _of_hydra(run_dir).get("job", {}).get("config_name", config_name)
    if earlier != config_name:
        raise UserError(
            f"resume={run_dir} is a run of {earlier}, not of {config_name}; continue it with: "
            f"{_written(str(earlier), [f'resume={run_dir}'])}"
        )


def needs_folder(run_dir: Path, config_name: str, given: Sequence[str]) -> str:
    """The end of a message about a stored override that does not compose.

    It is the command with the --config-dir that the run was started with; "" if it had none, or
    the user gave one. `given` are the arguments of this process, as the user wrote them.
    """
    sources = _of_hydra(run_dir).get("runtime", {}).get("config_sources", [])
    stored = [one["path"] for one in sources if one.get("provider") == "command-line"]
    if not stored or any(item.startswith(("--config-dir", "-cd")) for item in given):
        return ""
    line = _written(config_name, [*given, "--config-dir", *stored])
    return f"; the run was started with --config-dir {stored[0]}; continue it with: {line}"


def _of_hydra(run_dir: Path) -> Any:
    """Hydra's own settings of a run; empty if its files, which are not needed, are not there."""
    try:
        return read_yaml(run_dir / ".hydra" / "hydra.yaml", dict)["hydra"]
    except (FileError, KeyError):
        return {}


def absent_component(resume: Path) -> str | None:
    """A sentence about a component of a run whose package is not installed here; else None."""
    with suppress(FileError):
        for name, keys in targets(read_yaml(resume / "config.yaml", dict)):
            if not is_installed(name):
                return (
                    f"resume={resume}: {'.'.join(keys[:-1])} is {name}, and the package "
                    f"{name.partition('.')[0]} is not installed here; install it, or put its "
                    "folder on PYTHONPATH"
                )
    return None


def continuing_command(given: Sequence[str]) -> str | None:
    """The line for the shell that continues the run of this process, from its arguments `given`.

    It is the command itself, with its directory, where the run has stored nothing yet: what it has
    trained in the artifact store continues. None where no run was started.
    """
    if not HydraConfig.initialized():
        return None
    hydra_cfg = HydraConfig.get()
    command = str(hydra_cfg.job.config_name)
    if hydra_cfg.mode is RunMode.MULTIRUN:
        folder = Path(hydra_cfg.sweep.dir)
        if not (folder / "study.journal").is_file():
            return None  # the jobs that were finished would run again
        kept = [item for item in given if key_of(item) != "output_dir"]
        return _written(command, [*kept, f"output_dir={folder}"])
    folder = Path(hydra_cfg.runtime.output_dir)
    needed = [folder / "config.yaml", folder / "overrides.yaml"]
    if not all(map(Path.is_file, needed)):
        return None
    if not any((folder / one).exists() for one in PROGRESS):
        kept = [item for item in given if key_of(item) != "output_dir"]
        return _written(command, [*kept, f"output_dir={folder}"])
    trusted = [item for item in given if key_of(item) == "trust"]
    return _written(command, [f"resume={folder}", *_config_dir(given), *trusted])


def program_name(command: str) -> list[str]:
    """The words that start `command` as this process was started, without paths."""
    words = _program(command)
    return ["python" if word == sys.executable else Path(word).name for word in words]


def recorded_command(program: Sequence[str], given: Sequence[str]) -> list[str]:
    """The words of the command of the run, as a user writes it.

    They are those of the user, except in a job of a multirun, which has its own overrides, and a
    resumed run, which has those that it was started with.

    Args:
        program: See `program_name`; another process may run the job.
        given: The arguments of the user.
    """
    hydra_cfg = HydraConfig.get()
    is_job = hydra_cfg.mode is RunMode.MULTIRUN
    if not is_job and not any(key_of(item) == "resume" for item in given):
        return [*program, *given]
    overrides = [item for item in hydra_cfg.overrides.task if key_of(item) != "resume"]
    return [*program, *_config_dir(given), *map(shortened, overrides)]


def _config_dir(given: Sequence[str]) -> list[str]:
    """The argument --config-dir, in one word or two."""
    flags = ("--config-dir", "-cd")
    pairs = zip(["", *given], given, strict=False)
    return [item for before, item in pairs if item.startswith(flags) or before in flags]


def _written(command: str, arguments: Sequence[str]) -> str:
    """A line for the shell that starts `command` as this process was started."""
    return shlex.join([*_program(command), *arguments])


def _program(command: str) -> list[str]:
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return [sys.executable, "-m", "ivqa", command]
    if program.suffix == ".py":
        script = program.with_stem(command) if program.stem in _COMMANDS else program
        return [sys.executable, str(script)]
    return [str(program), command]
