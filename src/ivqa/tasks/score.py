"""Scoring: the result files of any VQA system, with or without noise."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ivqa.data.results import read_results
from ivqa.errors import UserError
from ivqa.files import write_json, write_text
from ivqa.report import print_metrics
from ivqa.robustness import NoiseRecords
from ivqa.runs.loggers import log_results
from ivqa.tasks.noise_curve import show_noise_curve
from ivqa.terminal import terminal
from ivqa.vqa.benchmark import score_answers


def score(cfg: DictConfig) -> float:
    """Scores the result files cfg.predictions of any VQA system (task=score).

    The first file answers the clean questions; further files answer the questions of noise levels
    1, 2, ... and give the noise curve. Writes metrics.json and robustness.parquet.

    Args:
        cfg: The configuration of evaluate.py.

    Returns:
        The accuracy in [0, 1] of a single file; the R_score of several.

    Raises:
        UserError: cfg.predictions is an empty list.
        DataError: A result file does not fit the split.
    """
    run_dir = Path(cfg.output_dir)
    dataset = instantiate(cfg.data)
    split = dataset.split(cfg.split).require_answers()
    several = not isinstance(cfg.predictions, str)
    files = [Path(file) for file in cfg.predictions] if several else [Path(cfg.predictions)]
    if not files:
        raise UserError("predictions=[] names no result file; pass at least one")
    levels = [read_results(file, split) for file in files]
    metrics = score_answers(split, levels[0])
    records = NoiseRecords.scored(split.question_ids, split.answer_types, levels, split.answers)
    records.write(run_dir)
    if len(levels) > 1:
        curve = records.curve(instantiate(cfg.r_score))
        metrics |= {f"robustness/{name}": value for name, value in curve.metrics().items()}
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    write_json(run_dir / "metrics.json", metrics)
    console = terminal()
    title = f"{files[0].name} on {dataset.title}, split {split.name}"
    print_metrics(metrics, title=title, console=console)
    log_results(cfg, metrics, show_noise_curve(metrics, files[0].stem, run_dir, split, console))
    console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get("robustness/r_score", metrics["vqa/accuracy"])
