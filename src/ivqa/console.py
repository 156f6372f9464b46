"""The console scripts: ivqa-train, ivqa-evaluate and ivqa-diagnose, as the three files do."""

from ivqa.command_line import entry_point
from ivqa.config.folder import conf_dir


def train() -> None:
    """Trains a model: ivqa-train model=ivqa_vae."""
    entry_point(conf_dir(), "train")


def evaluate() -> None:
    """Evaluates a model: ivqa-evaluate model=mlb."""
    entry_point(conf_dir(), "evaluate")


def diagnose() -> None:
    """Extracts what a VQA model believes: ivqa-diagnose vqa=mlb."""
    entry_point(conf_dir(), "diagnose")
