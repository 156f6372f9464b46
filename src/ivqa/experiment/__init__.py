"""Experiments: what train.py, evaluate.py and diagnose.py run."""

from ivqa.experiment.diagnosis import diagnose
from ivqa.experiment.entry import entry_point
from ivqa.experiment.tasks import evaluate
from ivqa.experiment.training import train

__all__ = ["diagnose", "entry_point", "evaluate", "train"]
