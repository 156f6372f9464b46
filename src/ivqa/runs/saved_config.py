"""Configurations for Python, composed by Hydra from a run directory or the name of a model."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ivqa.config.checks import check_config
from ivqa.config.choices import choices_of, conf_dir, config_folders, search_path
from ivqa.config.error_messages import describe
from ivqa.config.nodes import nodes
from ivqa.config.short_forms import ALIASES
from ivqa.config.stored_runs import OwnSettings, check_stored, is_written, own_settings
from ivqa.errors import UserError
from ivqa.runs.precision import set_precision
from ivqa.runs.run_directory import best_checkpoint
from ivqa.store.files import read_yaml


@contextmanager
def configured(source: str | Path, overrides: Mapping[str, Any]) -> Iterator[DictConfig]:
    """Composes and checks a configuration; inside the block a model can be trained with it.

    Args:
        source: A run directory, a checkpoint in a run directory or in the artifact store, or the
            name of a model in conf/model.
        overrides: Values by dotted key, as on the command line.

    Yields:
        The configuration. `ckpt` is the best checkpoint of the run, or "auto".

    Raises:
        UserError: The source is none of these, or the configuration is invalid.
    """
    folder, name, ckpt = _place(source)
    ckpt, trust = overrides.get("ckpt", ckpt), overrides.get("trust", ())
    folders = config_folders(conf_dir(), [])
    arguments = [f"model={source}", "output_dir=.", *search_path(folders)]
    arguments = [] if name == "config" else arguments
    aliases = {} if name == "config" else ALIASES  # a stored configuration has no groups
    for key, value in overrides.items():
        if key not in ("ckpt", "trust"):  # an earlier configuration may lack these keys
            arguments.append(f"{aliases.get(key, key)}={_written(value)}")
    previous = HydraConfig.instance().cfg
    try:
        with initialize_config_dir(str(folder.absolute()), version_base="1.3"):
            try:
                cfg = compose(name, arguments, return_hydra_config=True)
            except (HydraException, OmegaConfBaseException) as error:
                described = describe(error, arguments, conf_dir=folder, config_name=name)
                raise UserError(f"{source}: {described}") from error
            HydraConfig.instance().set_config(cfg)  # a training notes its overrides
            with open_dict(cfg):
                del cfg["hydra"]
                cfg.trust = list(trust)
            if name == "config":  # a run may come from elsewhere
                own = own_settings([*arguments, f"trust={_written(list(trust))}"])
                _relocate(cfg, folder, own)
                check_stored(cfg, str(source), folder, folders, own)
            check_config(cfg)
            with open_dict(cfg):
                cfg.ckpt = str(ckpt or cfg.get("ckpt", "auto"))
            if cfg.ckpt == "auto":
                set_precision(cfg.trainer)
        yield cfg
    finally:
        HydraConfig.instance().cfg = previous


def _place(source: str | Path) -> tuple[Path, str, str | None]:
    """The folder and the name of the configuration, and the checkpoint of a run."""
    path = Path(source).expanduser()
    if path.is_dir():
        return _run(path, best_checkpoint(path))
    if path.is_file():
        # RUN/checkpoints/best.ckpt, or model.ckpt beside the run in the artifact store
        runs: Sequence[Path] = (path.parent / "run", path.parent.parent)
        run = next((run for run in runs if (run / "config.yaml").is_file()), path.parent)
        return _run(run, path)
    if len(path.parts) > 1 or path.suffix:
        raise UserError(f"{source}: there is no such run directory or checkpoint")
    known = choices_of("model", config_folders(conf_dir(), []), "evaluate")
    if str(source) not in known:
        raise UserError(
            f"{source} is neither a run directory nor a checkpoint nor a model of conf/model "
            f"({', '.join(known)})"
        )
    return conf_dir(), "evaluate", None


def _run(run: Path, checkpoint: Path) -> tuple[Path, str, str | None]:
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{run} is no run directory of ivqa: it has no config.yaml")
    # Hydra would read other files for these keys, and import packages for hydra.searchpath.
    if foreign := {"defaults", "hydra"} & set(read_yaml(file, dict)):
        raise UserError(
            f"{file} has the key '{min(foreign)}', which no run of ivqa writes; remove it if you "
            "trust the rest of the run"
        )
    return run, "config", os.fspath(checkpoint) if checkpoint.is_file() else None


def _relocate(cfg: DictConfig, run: Path, own: OwnSettings) -> None:
    """Gives a stored configuration its place on this machine: directory, and artifact store.

    All paths below the two are written out in it; those that the user gave stay.
    """
    stored = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(stored, dict)
    for node, prefix in nodes(cfg):
        for key in filter(is_written, map(str, node)):
            if not prefix or OmegaConf.is_interpolation(node, key) or prefix + key in own.keys:
                continue
            for name in ("output_dir", "artifacts"):
                place, value = str(stored.get(name)), str(node[key])
                if value == place or value.startswith(f"{place}/"):
                    node[key] = f"${{{name}}}{value.removeprefix(place)}"
    with open_dict(cfg):
        cfg.resume = None
        if "output_dir" not in own.keys:
            cfg.output_dir = str(run)
        if "artifacts" not in own.keys:
            cfg.artifacts = read_yaml(conf_dir() / "run.yaml", dict)["artifacts"]


def _written(value: Any) -> str:
    """A value in Hydra's grammar; texts are quoted if Hydra would read something else."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    try:
        is_plain = OverridesParser.create().parse_override(f"key={text}").value() == text
    except HydraException:
        is_plain = False
    return text if is_plain else QuotedString(text=text, quote=Quote.single).with_quotes()
