"""Short forms of overrides: vqa=mlb, reward=goal, predictions=FILE."""

import re
from collections.abc import Sequence
from pathlib import Path

from ivqa.store.files import read_yaml

# Choices of a group for another place of the configuration, which Hydra writes as group@place.
ALIASES = {"vqa": "model@vqa", "reward": "reward@model.module.rewards"}
JUDGES = "measuring_models.parts"  # the models of judge=NAME


def expanded(arguments: Sequence[str], conf_dir: Path, config_name: str) -> list[str]:
    """Expands the short forms among the arguments of a command.

    The groups of `ALIASES` get Hydra's notation. judge=[A,B] also chooses the files of these
    models, whose keys are judge.A.KEY. A file of conf/task may name a key as its `short_form`; an
    override of this key then also chooses the task, unless task= is present: predictions=FILE
    means task=score predictions=FILE. diagnose.py images= chooses the question generator that
    needs no training.
    """
    written = [written_out(argument) for argument in arguments]
    keys = {argument.partition("=")[0].lstrip("+") for argument in written if "=" in argument}
    judged = [argument for argument in written if argument.startswith("judge=")][-1:]
    names = re.findall(r"""[^\s,\[\]'"]+""", "".join(judged).partition("=")[2])
    groups = {f"model@{JUDGES}.{name}": name for name in names if name != "null"}
    # A resumed run has them already.
    written += [f"+{group}={name}" for group, name in groups.items() if group not in keys]
    if config_name == "diagnose" and "images" in keys and "model" not in keys:
        written.append("model=plain_english")
    if "task" in keys:
        return written
    tasks = task_keys(conf_dir, config_name)
    return [*written, *(f"task={tasks[key]}" for key in tasks if key in keys)]


def task_keys(conf_dir: Path, config_name: str) -> dict[str, str]:
    """The task that each key chooses; empty for a command without tasks."""
    defaults = read_yaml(conf_dir / f"{config_name}.yaml", dict).get("defaults", [])
    if not any(isinstance(entry, dict) and "task" in entry for entry in defaults):
        return {}
    files = sorted((conf_dir / "task").glob("*.yaml"))
    keys = {file.stem: read_yaml(file, dict).get("short_form") for file in files}
    return {str(key): task for task, key in keys.items() if key}


def written_out(argument: str) -> str:
    """Hydra's notation of an override, or of its key alone: with the group of `ALIASES`.

    >>> written_out("vqa=mlb"), written_out("vqa"), written_out("judge.mcb.epochs=1")
    ('model@vqa=mlb', 'model@vqa', 'measuring_models.parts.mcb.epochs=1')
    """
    key, equals, value = argument.partition("=")
    if key.startswith("judge."):
        key = JUDGES + key.removeprefix("judge")
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
