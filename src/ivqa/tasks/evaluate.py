"""Evaluation: the benchmark of a trained model on a split, as metrics, a table and pages."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import TrainedHere, source_of
from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.errors import UserError
from ivqa.generators import RemembersTraining
from ivqa.ranges import Checkpoint, ExistingFolder, NonEmptyText
from ivqa.released import SEED
from ivqa.report.tables import print_metrics
from ivqa.runs.callbacks import measured
from ivqa.runs.context import RunContext
from ivqa.runs.fitting import validate
from ivqa.runs.loggers import has_assigned_run, log_results
from ivqa.runs.preparation import open_context, with_compared_images, with_features
from ivqa.runs.run_directory import holds_directory, write_config
from ivqa.runs.trained_models import obtain_measuring_models, obtain_module
from ivqa.store.artifact_store import training_seconds
from ivqa.store.files import write_json
from ivqa.tasks.consistency import show_consistency
from ivqa.tasks.noise_curve import show_noise_curve
from ivqa.vqa import Metered, VQAModule
from ivqa.vqa.evaluation import answer_all, write_answers


class Keys(CommandKeys, total=False):
    """Keys of task=evaluate."""

    ckpt: Checkpoint
    questions: ExistingFolder | None
    questions_split: NonEmptyText


@holds_directory
def evaluate(cfg: Annotated[DictConfig, Keys]) -> float:
    """Runs the benchmark of a model on cfg.split (task=evaluate).

    Writes config.yaml, metrics.json and the files of the benchmark into the run directory.

    Returns:
        The headline metric of the benchmark, for sweepers; NaN if the split has no annotations.

    Raises:
        UserError: resume= is set, or the data do not fit the configuration.
    """
    if cfg.resume is not None:
        raise UserError(
            "resume= continues training, or a ranking; an evaluation is not resumed: start it "
            "again without resume="
        )
    if cfg.model.get("benchmark") is None:
        raise UserError("model.benchmark=null: evaluate.py needs it; leave this out")
    # 1. Data and features.
    other = _other_questions(cfg)
    benchmark = instantiate(cfg.model.benchmark)
    context = _open(cfg, other)
    # 2. The trained model.
    module, vocabularies, checkpoint = obtain_module(context)
    datamodule = context.datamodule(vocabularies, module)
    if isinstance(module, RemembersTraining):
        module.remember(datamodule)
    run_dir = Path(cfg.output_dir)
    write_config(cfg, run_dir)
    # 3. Its benchmark, or its answers to other questions.
    if other is None:
        title = f"{cfg.name} on {context.dataset.title}, split {context.dataset.name_of(cfg.split)}"
        metrics = _own_metrics(context, module, datamodule, run_dir)
        metrics |= training_seconds(checkpoint)
        metrics |= benchmark.run(module, datamodule, cfg.split, run_dir, title, context.console)
    else:
        title = f"{cfg.name} on {Path(cfg.questions).parent.name}, split {other.name}"
        answers = answer_all(
            module, datamodule, cfg.split, other.image_ids, other.questions, context.console
        )
        metrics = write_answers(other, answers, run_dir, context.console)
        metrics["vqa/questions"] = float(len(other))
        metrics["vqa/images"] = float(len(set(other.image_ids.tolist())))
    if isinstance(module, Metered):
        metrics |= module.usage()
    # 4. The results: metrics.json, the terminal and the loggers.
    write_json(run_dir / "metrics.json", metrics)
    _show(context, metrics, title, run_dir)
    context.console.print(f"checkpoint: {checkpoint}\nrun: {run_dir}", soft_wrap=True)
    return metrics.get(benchmark.headline, float("nan"))


def _open(cfg: DictConfig, other: VQASplit | None) -> RunContext:
    """Data and features of cfg.split, and of the training splits if ivqa trains a model.

    With other questions cfg.split needs only images, so it may lack annotations.
    """
    training = TrainedHere.splits if cfg.get("measuring_models") else source_of(cfg.model).splits
    splits = list(dict.fromkeys([*training, cfg.split]))
    unscored = [] if other is None else [cfg.split]
    context = open_context(cfg, splits, unscored)
    context = replace(context, is_part=_may_be_released(cfg))
    context = with_features(context, [cfg.split])
    if not all(one.is_trained for one in context.all_models()):
        context = with_features(context, splits)
    return context if other is not None else with_compared_images(context, cfg.split)


def _may_be_released(cfg: DictConfig) -> bool:
    """Whether released weights may be evaluated.

    The jobs of a multirun or of a sweep are compared with each other, so all of them are trained.
    """
    alone = HydraConfig.get().mode is not RunMode.MULTIRUN and not has_assigned_run()
    return alone and int(cfg.seed) == SEED


def _show(context: RunContext, metrics: dict[str, float], title: str, run_dir: Path) -> None:
    """Prints and logs the metrics, and the noise curve if noise was measured."""
    if metrics:
        print_metrics(metrics, title=title, console=context.console)
    split = context.dataset.split(context.cfg.split)
    name, r_score = str(context.cfg.name), instantiate(context.cfg.get("r_score"))
    media = show_noise_curve(metrics, name, run_dir, split, r_score, context.console)
    media |= show_consistency(metrics, name, run_dir, split, context.console)
    log_results(context.cfg, metrics, media)


def _own_metrics(
    context: RunContext, module: Any, datamodule: VQADataModule, run_dir: Path
) -> dict[str, float]:
    """Metrics of a model on cfg.split that are not part of its benchmark.

    Those that the model and its callbacks log in validation, and model/parameters. A model that is
    not trained here, or is no LightningModule, has only those of the callbacks.
    """
    cfg = context.cfg
    metrics: dict[str, float] = {}
    # A VQA model itself logs only accuracies, which need annotations.
    unscored = isinstance(module, VQAModule) and context.dataset.lacks_annotations(cfg.split)
    validated = isinstance(module, pl.LightningModule) and isinstance(context.source, TrainedHere)
    if validated and not unscored:
        # trainer.limit_val_batches defaults to model.val_batches, the limit during training. An
        # evaluation uses the whole split unless the user sets the limit.
        by_default = OmegaConf.is_interpolation(cfg.trainer, "limit_val_batches")
        limit = 1.0 if by_default else cfg.trainer.limit_val_batches
        measuring_models = obtain_measuring_models(context)
        metrics = validate(
            cfg, module, datamodule, cfg.split, run_dir, limit, measuring_models=measuring_models
        )
    else:
        metrics = measured(
            cfg, obtain_measuring_models(context), module, datamodule, cfg.split, run_dir
        )
    metrics["model/parameters"] = float(sum(value.numel() for value in module.parameters()))
    return metrics


def _other_questions(cfg: DictConfig) -> VQASplit | None:
    """The questions in the data root cfg.questions, about images of cfg.split; None without one."""
    if cfg.questions is None:
        return None
    root = Path(cfg.questions)
    dataset = VQADataset(root, train=None, val=None, test=cfg.questions_split)
    return dataset.split("test")
