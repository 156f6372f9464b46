"""Trains a model: python train.py model=ivqa_vae (options: conf/train.yaml, --help)."""

from pathlib import Path

from ivqa.command_line import entry_point

if __name__ == "__main__":  # the completion of Hydra looks for the word @hydra.main
    entry_point(Path(__file__).parent / "conf", "train")
