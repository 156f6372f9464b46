"""Training: a run directory with checkpoints, metrics and the configuration."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from pytorch_lightning import Trainer
from pytorch_lightning.utilities import rank_zero_only

from ivqa.config.keys import command_keys
from ivqa.config.model_sources import source_of
from ivqa.errors import UserError
from ivqa.ranges import CHANGEABLE, marks_of
from ivqa.report.tables import print_metrics
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import can_continue, holds_directory
from ivqa.runs.trained_models import publish, train_model
from ivqa.store.files import read_yaml
from ivqa.store.identity import differences, to_plain
from ivqa.store.signatures import marked


@holds_directory
def train(cfg: DictConfig) -> float:
    """Trains the configured model, prints its metrics and stores it (train.py).

    Returns:
        The monitored validation metric, for sweepers; NaN if it was not logged.

    Raises:
        UserError: The model comes trained, the data do not fit the configuration, or a resumed run
            has other settings than before.
    """
    if refusal := source_of(cfg.model).refusal:
        raise UserError(f"model={cfg.model.name} {refusal}")
    splits = ["train", "val"]
    context = open_context(cfg, splits)
    context = with_features(context, splits).of_training
    run_dir = Path(cfg.output_dir)
    resume = cfg.resume is not None or _was_interrupted(run_dir)
    if resume:
        _check_unchanged(context.cfg, run_dir)
    metrics = train_model(context, run_dir, resume=resume)
    if rank_zero_only.rank:  # type: ignore[attr-defined]
        return metrics.get(cfg.model.monitor, float("nan"))  # only rank 0 prints and stores
    # A fast dev run writes no checkpoint.
    if not cfg.trainer.get("fast_dev_run"):
        publish(context, run_dir, metrics)
    print_metrics(metrics, title=f"{cfg.name} on {context.dataset.title}", console=context.console)
    context.console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get(cfg.model.monitor, float("nan"))


def _was_interrupted(run_dir: Path) -> bool:
    """Whether this is a job of a multirun that was stopped before its end, and started again.

    A cluster starts a job that it preempted again with the same arguments. Only such a job, or one
    of the same command with the same output_dir, has a numbered directory with a checkpoint.
    """
    in_multirun = HydraConfig.initialized() and HydraConfig.get().mode is RunMode.MULTIRUN
    finished = (run_dir / "metrics.json").is_file()
    return in_multirun and not finished and can_continue(run_dir)


def _check_unchanged(cfg: DictConfig, run_dir: Path) -> None:
    """Raises UserError if a resumed run changes more than its length, machine or logging."""
    before, now = read_yaml(run_dir / "config.yaml", dict), to_plain(cfg)
    changeable = {key for key, hint in command_keys(cfg).items() if CHANGEABLE in marks_of(hint)}
    length = marked(Trainer, CHANGEABLE)
    fixed = {key: value for key, value in before.items() if key not in {*changeable, "trainer"}}
    trainer = {key: one for key, one in (before.get("trainer") or {}).items() if key not in length}
    # Only the keys of the run: a later version of ivqa may have more.
    own = {key: now.get(key) for key in fixed}
    own["trainer"] = {key: now["trainer"].get(key) for key in trainer}
    changed = differences({**fixed, "trainer": trainer}, own)
    if changed:
        raise UserError(
            f"resume={run_dir}: {'; '.join(changed[:5])}; start a new run to change "
            f"{'it' if len(changed) == 1 else 'them'}"
        )
