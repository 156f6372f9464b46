"""Installs the lowest versions that pyproject.toml allows, imports ivqa and runs quick tests.

    python tests/lower_bounds.py [--folder FOLDER]

The environment is a new one in FOLDER, of about 8 GB; packages that pyproject.toml does not name
get the version that pip chooses. The exit status is that of the first step that fails.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = Path(__file__).parents[1]
# Groups of pyproject.toml whose packages ivqa itself imports; the others are tools.
EXTRAS = ("photos", "served", "lora", "sweeps", "smolvlm", "datasets", "trackers", "excel", "view")
TOOLS = ("pytest", "hypothesis")
TESTS = (
    "tests/data", "tests/text", "tests/metrics", "tests/lasso", "tests/encoders", "tests/report",
    "tests/interchange", "tests/runs/test_loggers.py", "tests/runs/test_optuna_sweep.py",
    "tests/vqa/test_hf_blip.py", "tests/vqa/test_hf_generative.py", "tests/vqa/test_image_urls.py",
    "tests/vqa/test_openai_model.py", "tests/generators/test_transformer.py",
    "tests/end_to_end/test_commands.py",
)  # fmt: skip
# Each module in an order that pkgutil defines, and at last how many there were.
IMPORTS = """
import importlib, pkgutil, ivqa
names = [one.name for one in pkgutil.walk_packages(ivqa.__path__, "ivqa.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), "modules import")
"""


def lowest(requirement: str) -> str:
    """The requirement with its lowest version alone: "name>=1.2,<2" gives "name==1.2".

    Raises:
        ValueError: It has no lower bound.
    """
    parsed = Requirement(requirement)
    bounds = [one.version for one in parsed.specifier if one.operator in (">=", "==", "~=")]
    if not bounds:
        raise ValueError(f"pyproject.toml: {requirement} has no lower bound; add >=VERSION")
    return f"{parsed.name}=={max(bounds, key=Version)}"


def direct_requirements() -> list[str]:
    """The packages of pyproject.toml that ivqa imports, as written there."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(item for name in EXTRAS for item in extras[name])]


def main() -> int:
    """Runs the steps; returns the first exit status that is not 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="of the environment; default: a temporary one")
    with tempfile.TemporaryDirectory() as scratch:
        folder = parser.parse_args().folder or Path(scratch)
        if not (folder / "bin" / "python").exists():
            venv.create(folder, with_pip=True)
        python = str(folder / "bin" / "python")
        pins = [lowest(item) for item in direct_requirements()]
        print("lowest versions:", *pins, flush=True)
        for step in (
            ["-m", "pip", "install", "--quiet", "-e", str(PROJECT), *pins, *TOOLS],
            ["-c", IMPORTS],
            ["-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "-x", *TESTS],
        ):
            status = subprocess.run([python, *step], cwd=PROJECT).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
