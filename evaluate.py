"""Evaluates a trained model: python evaluate.py model=ivqa_vae (options: conf/evaluate.yaml)."""

from pathlib import Path

from ivqa.command_line import entry_point

if __name__ == "__main__":  # the completion of Hydra looks for the word @hydra.main
    entry_point(Path(__file__).parent / "conf", "evaluate")
