"""Trains a model: python train.py model=ivqa_vae (options: conf/train.yaml, --help)."""

from pathlib import Path

from ivqa.experiment import entry_point, train

if __name__ == "__main__":
    entry_point(train, conf_dir=Path(__file__).parent / "conf", config_name="train")
