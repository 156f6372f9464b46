"""Experiments: what train.py and evaluate.py run."""

from ivqa.experiment.entry import entry_point
from ivqa.experiment.evaluation import evaluate
from ivqa.experiment.training import train

__all__ = ["entry_point", "evaluate", "train"]
