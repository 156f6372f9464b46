"""Evaluation: a trained model's benchmark on a split, a table, and pages to look at."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.errors import UserError
from ivqa.files import write_json, write_text
from ivqa.report import print_metrics
from ivqa.robustness import RobustnessCallback
from ivqa.runs.fitting import build_callbacks, validate
from ivqa.runs.loggers import log_results
from ivqa.runs.preparation import open_workbench, with_features
from ivqa.runs.trained_models import obtain_module, training_seconds
from ivqa.runs.workbench import Workbench
from ivqa.tasks.noise_curve import show_noise_curve
from ivqa.vqa import VQAModule
from ivqa.vqa.benchmark import answer_all, write_answers


def evaluate(cfg: DictConfig) -> float:
    """Runs the model's benchmark on cfg.split (task=evaluate).

    Writes config.yaml, metrics.json and the benchmark's own files into the run directory.
    Returns the benchmark's headline metric, for sweepers; NaN where the split has no annotations.
    """
    if cfg.resume is not None:
        raise UserError("resume= goes on with a training run; evaluate.py starts afresh")
    other = other_questions(cfg)
    benchmark = instantiate(cfg.model.benchmark)
    learnt_from = [] if cfg.model.get("pretrained") else ["train", "val"]
    unscored = [] if other is None else [cfg.split]  # whose images other questions are about
    splits = list(dict.fromkeys([*learnt_from, cfg.split]))
    bench = with_features(open_workbench(cfg, splits, unscored), splits)
    module, vocabularies, checkpoint = obtain_module(bench)
    run_dir = Path(cfg.output_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))

    datamodule = bench.datamodule(vocabularies, module)
    if other is None:
        title = f"{cfg.name} on {bench.dataset.root.name}, split {bench.dataset.name_of(cfg.split)}"
        metrics = own_metrics(bench, module, datamodule, run_dir)
        metrics |= training_seconds(checkpoint)
        metrics |= benchmark.run(module, datamodule, cfg.split, run_dir, title, bench.console)
    else:
        title = f"{cfg.name} on {Path(cfg.questions).parent.name}, split {other.name}"
        answers = answer_all(
            module, datamodule, cfg.split, other.image_ids, other.questions, bench.console
        )
        metrics = write_answers(other, answers, run_dir, bench.console)
    write_json(run_dir / "metrics.json", metrics)
    if metrics:
        print_metrics(metrics, title=title, console=bench.console)
    media = show_noise_curve(metrics, str(cfg.name), run_dir, bench.console)
    log_results(cfg, metrics, media)
    bench.console.print(f"checkpoint: {checkpoint}\nrun: {run_dir}", soft_wrap=True)
    return metrics.get(benchmark.headline, float("nan"))


def own_metrics(
    bench: Workbench, module: Any, datamodule: VQADataModule, run_dir: Path
) -> dict[str, float]:
    """Of a model on cfg.split: what it logs in validation, its callbacks', and its size."""
    cfg = bench.cfg
    metrics: dict[str, float] = {}
    if isinstance(module, VQAModule) and bench.dataset.lacks_annotations(cfg.split):
        pass  # all that it logs is accuracy
    elif isinstance(module, pl.LightningModule):
        # The default limit is that of the validations during training, model.val_batches.
        by_default = OmegaConf.is_interpolation(cfg.trainer, "limit_val_batches")
        limit = 1.0 if by_default else cfg.trainer.limit_val_batches
        metrics = validate(cfg, module, datamodule, cfg.split, run_dir, limit)
    else:
        for callback in build_callbacks(cfg):
            if isinstance(callback, RobustnessCallback):
                metrics |= callback.metrics(module, datamodule, cfg.split, run_dir)
    metrics["model/parameters"] = float(sum(value.numel() for value in module.parameters()))
    return metrics


def other_questions(cfg: DictConfig) -> VQASplit | None:
    """The questions of cfg.questions, a data root, about images of cfg.split; None without one.

    Raises DataError with every fault of its files.
    """
    if cfg.questions is None:
        return None
    root = Path(cfg.questions)
    dataset = VQADataset(root, train=None, val=None, test=cfg.questions_split)
    return dataset.split("test")
