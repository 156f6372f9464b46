"""Extracts what a VQA model believes: python diagnose.py vqa=mlb (options: conf/diagnose.yaml)."""

from pathlib import Path

from ivqa.experiment import diagnose, entry_point

if __name__ == "__main__":
    entry_point(diagnose, conf_dir=Path(__file__).parent / "conf", config_name="diagnose")
