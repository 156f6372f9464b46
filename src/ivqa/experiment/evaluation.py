"""Evaluation: a trained model's metrics on a split, a table, and pages to look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.data.results import read_results
from ivqa.errors import UserError
from ivqa.experiment.checks import check_config
from ivqa.experiment.comparison import compare_runs
from ivqa.experiment.human_study import compare_with_people
from ivqa.experiment.logging import log_results
from ivqa.experiment.training import (
    build_callbacks,
    obtain_module,
    training_seconds,
    validate,
)
from ivqa.experiment.vqa_benchmark import answer_all, score_answers, write_answers
from ivqa.experiment.workbench import Workbench, open_workbench
from ivqa.files import write_json, write_text
from ivqa.report import noise_rows, print_metrics, print_noise_curve, write_noise_curve
from ivqa.robustness import DisturbsImages, NoiseRecords, RobustnessCallback
from ivqa.vqa import VQAModule


def evaluate_model(cfg: DictConfig) -> float:
    """Runs the model's benchmark on cfg.split (task=evaluate).

    Writes config.yaml, metrics.json and the benchmark's own files into the run directory.
    Returns the benchmark's headline metric, for sweepers; NaN where the split has no annotations.
    """
    check_config(cfg)
    if cfg.resume is not None:
        raise UserError("resume= goes on with a training run; evaluate.py starts afresh")
    if cfg.human is not None:
        return compare_with_people(cfg)
    if cfg.compare is not None:
        return compare_runs(cfg)
    if cfg.write_noisy_questions:
        return write_noisy_questions(cfg)
    if cfg.predictions is not None:
        return score_predictions(cfg)
    other = other_questions(cfg)
    benchmark = instantiate(cfg.model.benchmark)
    learnt_from = [] if cfg.model.get("pretrained") else ["train", "val"]
    unscored = [] if other is None else [cfg.split]  # whose images other questions are about
    bench = open_workbench(cfg, list(dict.fromkeys([*learnt_from, cfg.split])), unscored)
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
        metrics = validate(bench, module, datamodule, cfg.split, run_dir, limit)
    else:
        for callback in build_callbacks(cfg):
            if isinstance(callback, RobustnessCallback):
                metrics |= callback.metrics(module, datamodule, cfg.split, run_dir)
    metrics["model/parameters"] = float(sum(value.numel() for value in module.parameters()))
    return metrics


def show_noise_curve(
    metrics: Mapping[str, float], name: str, run_dir: Path, console: Console
) -> dict[str, Any]:
    """Prints accuracy under noise, where it was measured, and draws robustness.png.

    Returns both as media for `log_results`.
    """
    if "robustness/partition_1/accuracy" not in metrics:
        return {}
    picture = run_dir / "robustness.png"
    print_noise_curve(metrics, console=console)
    write_noise_curve(picture, {name: metrics})
    console.print(f"look at {picture}", soft_wrap=True)
    return {"noise_curve": picture, "noise_table": pd.DataFrame(noise_rows(metrics))}


def other_questions(cfg: DictConfig) -> VQASplit | None:
    """The questions of cfg.questions, a data root, about images of cfg.split; None without one.

    Raises DataError with every fault of its files.
    """
    if cfg.questions is None:
        return None
    root = Path(cfg.questions)
    dataset = VQADataset(root, train=None, val=None, test=cfg.questions_split)
    return dataset.split("test")


def score_predictions(cfg: DictConfig) -> float:
    """Scores the result file cfg.predictions of any VQA system; returns its accuracy.

    Of several files the first answers the clean questions, the others those of noise levels
    1, 2, ...: they give the noise curve, and the R_score is returned.
    """
    run_dir = Path(HydraConfig.get().runtime.output_dir)
    dataset = instantiate(cfg.data)
    split = dataset.split(cfg.split).require_answers()
    several = not isinstance(cfg.predictions, str)
    files = [Path(file) for file in cfg.predictions] if several else [Path(cfg.predictions)]
    if not files:
        raise UserError("predictions=[] names no result file")
    levels = [read_results(file, split) for file in files]
    metrics = score_answers(split, levels[0])
    records = NoiseRecords.scored(split.question_ids, split.answer_types, levels, split.answers)
    records.write(run_dir)
    if len(levels) > 1:
        curve = records.curve(instantiate(cfg.r_score))
        metrics |= {f"robustness/{name}": value for name, value in curve.metrics().items()}
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    write_json(run_dir / "metrics.json", metrics)
    console = Console()
    title = f"{files[0].name} on {dataset.root.name}, split {split.name}"
    print_metrics(metrics, title=title, console=console)
    log_results(cfg, metrics, show_noise_curve(metrics, files[0].stem, run_dir, console))
    console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get("robustness/r_score", metrics["vqa/accuracy"])


def write_noisy_questions(cfg: DictConfig) -> float:
    """Writes the questions of cfg.split at every level of cfg.noise, in the official format.

    For systems that run elsewhere: questions_SPLIT_level_K.json in the run directory, with the
    ids of the clean questions. Returns the number of levels.
    """
    run_dir = Path(HydraConfig.get().runtime.output_dir)
    dataset = instantiate(cfg.data)
    split, noise = dataset.split(cfg.split), instantiate(cfg.noise)
    if isinstance(noise, DisturbsImages):
        raise UserError(
            "write_noisy_questions=true writes questions, but this noise= disturbs images; "
            "choose noise=basic_questions or word_shuffling"
        )
    pool = instantiate(cfg.bqd)(dataset)
    levels = [split.questions, *noise.disturbed(split.questions, pool)]
    run_dir.mkdir(parents=True, exist_ok=True)
    for level, questions in enumerate(levels):
        records = [
            {"image_id": image_id, "question_id": question_id, "question": question}
            for image_id, question_id, question in zip(
                split.image_ids.tolist(), split.question_ids.tolist(), questions, strict=True
            )
        ]
        write_json(run_dir / f"questions_{split.name}_level_{level}.json", {"questions": records})
    Console().print(f"run: {run_dir}", soft_wrap=True)
    return float(len(levels) - 1)
