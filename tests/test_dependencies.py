"""Every package that ivqa imports is declared in pyproject.toml, with a lower bound."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

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
