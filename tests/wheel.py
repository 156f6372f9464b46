"""Builds the wheel of the last commit and uses it outside the clone, in a bare environment.

    python tests/wheel.py [PYTHON ...]

PYTHON: the interpreters to try, such as python3.12; by default the one that runs this. Each gets a
new environment of up to 8 GB, which is deleted again. The exit status is that of the first step
that fails.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DRAW = """
from pathlib import Path
from ivqa.scenes import generate_scenes
generate_scenes(Path("scenes"), images={"val": 6}, workers=1, progress=False)
"""
DIAGNOSE = ["diagnose", "images=scenes/images/val", "vqa=mlb", "max_questions=60", "yes=true"]


def _run(command: list[str], cwd: Path) -> None:
    # The clone must not be on the path, and no stored model of this machine may help.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    print("$", *command, flush=True)
    environment["IVQA_ARTIFACTS"] = str(cwd / "artifacts")
    status = subprocess.run(command, cwd=cwd, env=environment).returncode
    if status:
        sys.exit(status)


def build(folder: Path) -> Path:
    """Builds the wheel from the files of the last commit, and returns it."""
    source = folder / "source"
    source.mkdir()
    archive = folder / "source.tar"
    _run(["git", "-C", str(PROJECT), "archive", "-o", str(archive), "HEAD"], folder)
    shutil.unpack_archive(archive, source, filter="data")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    _run([*pip, "--wheel-dir", str(folder), str(source)], folder)
    return next(folder.glob("*.whl"))


def check(python: str, wheel: Path, folder: Path) -> None:
    """Installs the wheel in a new environment and runs its commands there."""
    _run([python, "-m", "venv", str(folder / "bare")], folder)
    programs = folder / "bare" / "bin"
    _run([str(programs / "pip"), "install", "--quiet", str(wheel)], folder)
    _run([str(programs / "ivqa"), "evaluate", "--help"], folder)
    _run([str(programs / "python"), "-c", DRAW], folder)
    _run([str(programs / "ivqa"), *DIAGNOSE, "output_dir=run"], folder)
    answered = (folder / "run" / "beliefs.jsonl").read_text().splitlines()
    if len(answered) != 60 or not (folder / "run" / "report.html").is_file():
        sys.exit(f"error: {python}: {len(answered)} beliefs in place of 60, or no report.html")
    print(f"{python}: the wheel works", flush=True)


def main() -> None:
    """Runs the steps for each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", nargs="*", default=[sys.executable])
    interpreters = parser.parse_args().python
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build(Path(scratch))
        for python in interpreters:
            with tempfile.TemporaryDirectory() as folder:
                check(python, wheel, Path(folder))


if __name__ == "__main__":
    main()
