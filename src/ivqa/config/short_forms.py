"""Short forms of overrides: vqa=mlb, reward=goal, predictions=FILE."""

import re
from collections.abc import Sequence
from pathlib import Path

from ivqa.errors import UserError
from ivqa.store.files import read_yaml

# Choices of a group for another place of the configuration, which Hydra writes as group@place.
JUDGES = "measuring_models.parts"  # the models of judge=NAME
ALIASES = {
    "vqa": "model@vqa",
    "reward": "reward@model.module.rewards",
    "witness": f"model@{JUDGES}.witness",
}


def expanded(arguments: Sequence[str], conf_dir: Path, config_name: str) -> list[str]:
    """Expands the short forms among the arguments of a command.

    The groups of `ALIASES` get Hydra's notation. judge=[A,B] also chooses the files of these
    models, whose keys are judge.A.KEY. A file of conf/task may name a key as its `short_form`; an
    override of this key then also chooses the task, unless task= is present: predictions=FILE
    means task=score predictions=FILE.

    Raises:
        UserError: task= is one of another command.
    """
    written = [written_out(argument) for argument in arguments]
    keys = {argument.partition("=")[0].lstrip("+") for argument in written if "=" in argument}
    judged = [argument for argument in written if argument.startswith("judge=")][-1:]
    names = re.findall(r"""[^\s,\[\]'"]+""", "".join(judged).partition("=")[2])
    groups = {f"model@{JUDGES}.{name}": name for name in names if name != "null"}
    # A resumed run has them already.
    written += [f"+{group}={name}" for group, name in groups.items() if group not in keys]
    if "task" in keys:
        _check_tasks(written, conf_dir, config_name)
        return written
    tasks = task_keys(conf_dir, config_name)
    return [*written, *(f"task={tasks[key]}" for key in tasks if key in keys)]


def task_keys(conf_dir: Path, config_name: str) -> dict[str, str]:
    """The task of a command that each key chooses."""
    files = (file for file in (conf_dir / "task").glob("*.yaml") if runs(file, config_name))
    keys = {file.stem: read_yaml(file, dict).get("short_form") for file in sorted(files)}
    return {str(key): task for task, key in keys.items() if key}


def _check_tasks(arguments: Sequence[str], conf_dir: Path, config_name: str) -> None:
    for task in (item.removeprefix("task=") for item in arguments if item.startswith("task=")):
        file = conf_dir / "task" / f"{task}.yaml"
        if file.is_file() and not runs(file, config_name):
            command = next(one for one in ("evaluate", "diagnose") if runs(file, one))
            raise UserError(
                f"task={task} is one of {command}.py; run python {command}.py task={task}"
            )


def runs(file: Path, config_name: str) -> bool:
    """Whether the first lines of an experiment or task run this command, or none of ivqa."""
    commands = re.findall(r"^#.*python (\w+)\.py ", file.read_text(), re.M)
    return not commands or config_name in commands


def written_out(argument: str) -> str:
    """Hydra's notation of an override, or of its key alone: with the group of `ALIASES`.

    >>> written_out("vqa=mlb"), written_out("vqa"), written_out("judge.mcb.epochs=1")
    ('model@vqa=mlb', 'model@vqa', 'measuring_models.parts.mcb.epochs=1')
    """
    key, equals, value = argument.partition("=")
    if key.startswith("judge."):
        key = JUDGES + key.removeprefix("judge")
    if key.startswith("witness."):
        key = f"{JUDGES}.{key}"
    return f"{ALIASES.get(key, key)}{equals}{value}"


def shortened(override: str) -> str:
    """An override in Hydra's notation as a user writes it, for tables.

    >>> shortened("model@vqa=mlb"), shortened("seed=1")
    ('vqa=mlb', 'seed=1')
    """
    for short, long in ALIASES.items():
        if override.startswith(f"{long}="):
            return short + override.removeprefix(long)
    return override


def key_of(argument: str) -> str:
    """The key of an override, without Hydra's + and ~.

    >>> key_of("+trainer.fast_dev_run=true"), key_of("-m")
    ('trainer.fast_dev_run', '-m')
    """
    return argument.split("=", 1)[0].lstrip("+~")
