"""Every package that ivqa imports is declared in pyproject.toml, with a lower bound."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import ivqa
from lower_bounds import EXTRAS, direct_requirements, lowest

PROJECT = Path(__file__).parents[1]


def _imports(tree: ast.AST) -> set[str]:
    """The top-level modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return found - {*sys.stdlib_module_names, "ivqa"}


def _name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


def test_every_import_is_declared() -> None:
    declared = {_name(Requirement(item).name) for item in direct_requirements()}
    owners = packages_distributions()
    files = [*(PROJECT / "src" / "ivqa").rglob("*.py"), *PROJECT.glob("*.py")]
    assert len(files) > 300
    imported = {name: file for file in files for name in _imports(ast.parse(file.read_bytes()))}
    assert {"torch", "yaml", "omegaconf", "openai"} <= set(imported)
    missing = {
        name: str(file.relative_to(PROJECT))
        for name, file in imported.items()
        if not declared & {_name(one) for one in owners.get(name, [name])}
    }
    assert missing == {}


def test_every_declared_package_has_a_lower_bound(project: dict[str, Any]) -> None:
    assert set(EXTRAS) < set(project["optional-dependencies"])
    assert all("==" in lowest(item) for item in direct_requirements())
    assert lowest("hydra-core>=1.3.2,<1.4") == "hydra-core==1.3.2"
    with pytest.raises(ValueError, match="torch has no lower bound"):
        lowest("torch")
    with pytest.raises(ValueError, match="no lower bound"):
        lowest("torch<3")


def test_the_workflows_run_what_there_is(project: dict[str, Any]) -> None:
    files = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
    jobs = {
        name: job
        for file in files
        for name, job in yaml.safe_load(file.read_text())["jobs"].items()
    }
    assert {"lint", "tests", "lower-bounds", "docs", "release"} == set(jobs)
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    made = {found[1] for run in runs if (found := re.match(r"make (?:--silent )?(\S+)", run))}
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.M)
    assert made == {"lint", "tests", "wheel", "lower-bounds", "docs", "notes"}
    assert made <= set(targets)
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert jobs["tests"]["strategy"]["matrix"]["python"] == classified
    assert project["requires-python"] == f">={classified[0]}"


def test_a_version_stands_in_three_places(project: dict[str, Any]) -> None:
    cited = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert project["version"] == str(cited["version"]) == ivqa.__version__
    assert project["license"] == cited["license"]


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    command = ["make", "--silent", "notes", "VERSION=0.1.0"]
    notes = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    log = (PROJECT / "CHANGELOG.md").read_text()
    assert notes.strip()
    assert notes == re.findall(r"^## 0\.1\.0.*\n((?:(?!## ).*\n)*)", log, re.M)[0]
    absent = subprocess.run([*command[:3], "VERSION=0.1"], cwd=PROJECT, capture_output=True)
    assert absent.returncode
    assert absent.stderr.startswith(b"error: CHANGELOG.md has no section 0.1\n")
