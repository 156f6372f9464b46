"""What evaluate.py does: a task is one function and one file in conf/task."""

from hydra.utils import instantiate
from omegaconf import DictConfig


def evaluate(cfg: DictConfig) -> float:
    """Runs the command of the chosen task; returns its headline number, for sweepers."""
    return instantiate(cfg.command)(cfg)
