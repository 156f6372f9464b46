"""Trained models: loaded from the artifact store, released weights or a checkpoint, or trained."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import wandb
from hydra.utils import get_object, instantiate

from ivqa.errors import UserError
from ivqa.files import FileError, copy_file, read_json, read_yaml, write_json
from ivqa.integrity import MANIFEST, damage, seal
from ivqa.released import Released
from ivqa.robustness import RobustnessCallback
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.fitting import fit
from ivqa.runs.loggers import loggers_of_part
from ivqa.runs.vocabularies import Vocabularies
from ivqa.runs.workbench import Workbench
from ivqa.text.vocabulary import Vocabulary
from ivqa.weights import load_into, training_state

_ORIGIN = "origin.json"  # where a stored model comes from, and how long it was trained


def build_module(bench: Workbench, vocabularies: Vocabularies) -> Any:
    """Builds the configured module, untrained; its parts are obtained first.

    Args:
        bench: The workbench.
        vocabularies: Words and answers.

    Returns:
        The module. It receives only the inputs that its constructor declares, among the
        vocabularies, feature_sizes, and the parts in model.parts by name.
    """
    cfg = bench.cfg.model
    given = {**vars(vocabularies), "feature_sizes": bench.feature_sizes}
    parts = bench.parts
    for name, part in parts.items():
        given[name] = obtain_module(part)[0]
    # _partial_ leaves the vocabularies and parts, which are no configuration, for the call below.
    taken = signature(get_object(cfg.module._target_)).parameters
    build = instantiate(cfg.module, _partial_=True)
    return build(**{name: value for name, value in given.items() if name in taken})


def train_model(bench: Workbench, run_dir: Path, *, resume: bool) -> dict[str, float]:
    """Builds the configured module and trains it in `run_dir`; see `fit`.

    Args:
        bench: Data, features and configuration.
        run_dir: The run directory.
        resume: Continue from its last checkpoint.

    Returns:
        The validation metrics of the best checkpoint.
    """
    pl.seed_everything(bench.cfg.seed, workers=True, verbose=False)
    module = build_module(bench, bench.vocabularies)
    datamodule = bench.datamodule(bench.vocabularies, module)
    return fit(bench.cfg, module, datamodule, run_dir, resume=resume)


def publish(bench: Workbench, run_dir: Path, metrics: Mapping[str, float]) -> Path:
    """Copies the best checkpoint of a run into the artifact store.

    Args:
        bench: The workbench that the run was trained with.
        run_dir: The run directory.
        metrics: Metrics of the run, with train/seconds.

    Returns:
        The checkpoint in the store.
    """
    folder = bench.store_folder
    with bench.store.building(folder, bench.model_identity()):
        _keep(run_dir, folder, metrics)
    return folder / "model.ckpt"


def _keep(run_dir: Path, folder: Path, metrics: Mapping[str, float]) -> None:
    origin = {"run": str(run_dir), "seconds": metrics["train/seconds"]}
    write_json(folder / _ORIGIN, origin)
    copy_file(run_dir / "checkpoints" / "best.ckpt", folder / "model.ckpt")
    seal(folder / MANIFEST, [folder / _ORIGIN, folder / "model.ckpt"])


def training_seconds(checkpoint: Path) -> dict[str, float]:
    """Reads how long a stored model was trained.

    Args:
        checkpoint: A checkpoint.

    Returns:
        train/seconds for a checkpoint in the artifact store; empty for any other checkpoint.
    """
    file = checkpoint.with_name(_ORIGIN)
    origin = read_json(file, dict) if file.is_file() else {}
    seconds = origin.get("seconds")
    return {"train/seconds": seconds} if isinstance(seconds, float) else {}


def training_log(checkpoint: Path) -> Path:
    """The metrics.csv of the run that wrote a checkpoint; it need not exist.

    Args:
        checkpoint: A checkpoint in the artifact store or in a run directory.

    Returns:
        The path.
    """
    inside = checkpoint.parent / "run" / "metrics.csv"
    return inside if inside.is_file() else checkpoint.parent.parent / "metrics.csv"


def obtain_module(bench: Workbench) -> tuple[Any, Vocabularies, Path]:
    """The trained module that cfg.ckpt names.

    ckpt=auto loads the model from the artifact store, or the released weights of a part. If there
    are none, the model is trained. A model of another library is loaded with its own weights and
    words; it receives a closed set of answers if model.num_answers is set.

    Args:
        bench: The workbench, with features.

    Returns:
        The module in eval mode, its vocabularies, and the file of its weights.

    Raises:
        UserError: The checkpoint was trained on other features, words or answers.
    """
    if bench.cfg.model.get("pretrained"):
        chosen = None if bench.cfg.model.num_answers is None else bench.vocabularies.answers
        none = Vocabularies(Vocabulary([]), Vocabulary([]), chosen)
        return build_module(bench, none), none, Path(bench.cfg.model.path)
    ckpt = str(bench.cfg.ckpt)
    if (released := bench.released) is not None:
        path, component, weights = released.file, released.component(), released.weights()
        _announce(bench, released)
    else:
        path = _trained(bench) if ckpt == "auto" else Path(ckpt)
        checkpoint = load_checkpoint(path)
        component, weights = checkpoint["component"], checkpoint["state_dict"]
    if component["feature_sizes"] != bench.feature_sizes:
        raise UserError(
            f"{path} was trained on the image features {component['feature_sizes']}, but this run "
            f"offers {bench.feature_sizes}; pass the features= and data= it was trained with"
        )
    vocabularies = bench.vocabularies.restored(component)
    module = build_module(bench, vocabularies)
    load_into(module, weights, path, f"model={bench.cfg.model.name}")
    return module.eval(), vocabularies, path


def _announce(bench: Workbench, released: Released) -> None:
    """Reports released weights once per command, although several models may share the part."""
    if released.name in bench.announced:
        return
    bench.announced.add(released.name)
    scores = ", ".join(f"{name} {value:.3g}" for name, value in released.scores.items())
    bench.console.print(
        f"{released.name}: released weights ({scores}); pretrained=false trains it",
        soft_wrap=True,
    )


def _trained(bench: Workbench) -> Path:
    """The checkpoint of the model in the artifact store; an absent model is trained."""
    cfg = bench.cfg
    folder = bench.store_folder
    file = folder / "model.ckpt"
    with bench.store.building(folder, bench.model_identity()):
        fault = damage(folder / MANIFEST)
        if fault and file.is_file():
            bench.console.print(f"{fault}: the model is trained again.", soft_wrap=True)
        if fault:
            bench.console.print(
                f"No trained {cfg.model.name} for this data and configuration in "
                f"{bench.store.root}: training it first.",
                soft_wrap=True,
            )
            run = folder / "run"
            metrics = train_model(_as_part(bench), run, resume=_can_continue(run))
            if wandb.run is not None:
                wandb.finish()  # the next model of this process logs to a W&B run of its own
            _keep(run, folder, metrics)
    return file


def _can_continue(run: Path) -> bool:
    """Whether `run` was interrupted and can continue; a run with damaged checkpoints is deleted."""
    last, best = (run / "checkpoints" / f"{name}.ckpt" for name in ("last", "best"))
    if not last.is_file():
        return False
    try:
        training_state(last)
        if best.is_file():
            load_checkpoint(best)
        read_yaml(run / "config.yaml", dict)
    except FileError:
        shutil.rmtree(run)
        return False
    return True


def _as_part(bench: Workbench) -> Workbench:
    """The workbench of a model that is trained because another one needs it.

    Noise is measured for the model of the command alone. In W&B the part is a run of its own;
    under `wandb agent`, where a process has one run, that run is the command's.
    """
    cfg = bench.cfg.copy()
    for name, node in (cfg.callbacks or {}).items():
        if node and get_object(node._target_) is RobustnessCallback:
            cfg.callbacks[name] = None
    cfg.logger = loggers_of_part(cfg.logger)
    return replace(bench, cfg=cfg)
