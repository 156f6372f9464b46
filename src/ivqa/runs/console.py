"""The console scripts: ivqa-train, ivqa-evaluate and ivqa-diagnose, as the three files do."""

from pathlib import Path

from ivqa.runs.command_line import entry_point


def conf_dir() -> Path:
    """The folder of configurations: in the package, or beside `src` where links do not work."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parents[1] / "conf"


def train() -> None:
    """Trains a model: ivqa-train model=ivqa_vae."""
    entry_point(conf_dir(), "train")


def evaluate() -> None:
    """Evaluates a model: ivqa-evaluate model=mlb."""
    entry_point(conf_dir(), "evaluate")


def diagnose() -> None:
    """Extracts what a VQA model believes: ivqa-diagnose vqa=mlb."""
    entry_point(conf_dir(), "diagnose")
