"""Evaluates a trained model: python evaluate.py model=ivqa_vae (options: conf/evaluate.yaml)."""

from pathlib import Path

from ivqa.experiment import entry_point, evaluate

if __name__ == "__main__":
    entry_point(evaluate, conf_dir=Path(__file__).parent / "conf", config_name="evaluate")
