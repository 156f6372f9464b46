"""The jobs of a command, composed by Hydra: a single run, or each point of a sweep."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from ivqa.command_line import command_line, with_multirun
from ivqa.config.choices import config_folders
from ivqa.config.short_forms import expanded, key_of
from ivqa.store.files import read_yaml
from ivqa.sweeps.sweep_files import with_sweep


def overrides_of(
    task: str, arguments: Sequence[str], conf: Path, *, swept: bool = True
) -> list[str]:
    """The overrides of a command in Hydra's notation, without its options.

    Args:
        task: train, evaluate or diagnose.
        arguments: The arguments.
        conf: The folder of configuration files.
        swept: Whether to add the parameters of an experiment that is a sweep.

    Returns:
        The overrides; those of a sweep may have several values each.
    """
    given = list(arguments)
    with_options = with_multirun(with_sweep(given, config_folders(conf, given), task), conf)
    written = expanded(command_line(with_options), conf, task)
    overrides = [item for item in written if ("=" in item and item[0] != "-") or item[0] == "~"]
    return [*_parameters(overrides, conf), *overrides] if swept and "-m" in written else overrides


def values_of(override: str) -> list[str]:
    """The overrides of the single values: "a=1" and "a=2" for "a=1,2".

    >>> values_of("model=mlb,mcb"), values_of("x=[1,2]")
    (['model=mlb', 'model=mcb'], ['x=[1,2]'])
    """
    parsed = OverridesParser.create().parse_override(override)
    if not parsed.is_sweep_override():
        return [override]
    key = parsed.get_key_element()
    return [f"{key}={value}" for value in parsed.sweep_string_iterator()]


def composed(
    task: str, jobs: Sequence[Sequence[str]], conf: Path, added: Sequence[Path] = ()
) -> list[DictConfig]:
    """Composes the configurations of jobs.

    Args:
        task: train, evaluate or diagnose.
        jobs: The overrides of each job.
        conf: The folder of configuration files.
        added: Further folders of configuration files.
    """
    places = ",".join(f"file://{folder.absolute()}" for folder in added)
    searched = [f"hydra.searchpath=[{places}]"] if places else []
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf), version_base="1.3"):
        return [compose(task, [*searched, *job]) for job in jobs]


def configurations(words: Sequence[str], conf: Path) -> Iterator[DictConfig]:
    """The configurations of all jobs of a command, such as ["evaluate.py", "-m", "model=mlb"].

    A configuration is composed once for all its seeds, which is most of the work.

    Args:
        words: The script and its arguments.
        conf: The folder of configuration files.
    """
    task = words[0].removesuffix(".py")
    points = [values_of(item) for item in overrides_of(task, words[1:], conf)]
    seeds = [values[0] for values in points if key_of(values[0]) == "seed"]
    numbers = [values for values in points if values[0] in seeds]
    others = [values for values in points if values[0] not in seeds]
    for cfg in composed(task, list(product(*others)), conf):
        for number in numbers[-1] if numbers else [f"seed={cfg.seed}"]:
            one = cfg.copy()
            one.seed = int(number.partition("=")[2])
            yield one


def _parameters(overrides: Sequence[str], conf: Path) -> list[str]:
    """The parameters of an experiment that is a sweep, except those that the user gives."""
    name = next((item for item in overrides if item.startswith("experiment=")), None)
    if name is None:
        return []
    given = {key_of(item) for item in overrides}
    params = _swept(conf / "experiment" / f"{name.partition('=')[2]}.yaml")
    return [f"{key}={value}" for key, value in params.items() if key not in given]


def _swept(file: Path) -> dict[str, str]:
    """The parameters of the sweep of an experiment, and of those it builds on, by key."""
    node = read_yaml(file, dict)
    params: dict[str, str] = {}
    for name in node.get("defaults", []):
        if isinstance(name, str) and name != "_self_":
            params |= _swept(file.with_name(f"{name}.yaml"))
    return params | (node.get("hydra", {}).get("sweeper", {}).get("params") or {})
