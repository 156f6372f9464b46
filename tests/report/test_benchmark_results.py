"""Sections of benchmarks/RESULTS.md, and the names that the benchmarks import."""

import ast
import importlib
import os
import platform
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmarks import __main__ as runner
from benchmarks import cuda, kernels


def test_a_section_has_machine_versions_seed_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ModuleType("benchmarks.fake", "Claim: fast.")
    fake.run = lambda: [{"seed": torch.initial_seed(), "draw": random.random()}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.fake", fake)
    monkeypatch.setattr(runner, "NAMES", ("fake",))
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(runner, "commit_of", lambda folder: "abc1234")
    runner.main(["fake"])
    once = (tmp_path / "RESULTS.md").read_text()
    assert f"{os.cpu_count()} cores (" in once
    assert f", seed 0, Python {platform.python_version()}, torch {torch.__version__}, " in once
    assert ", commit abc1234\n" in once
    assert f"| 0 | {random.Random(0).random():.4g} |" in once
    runner.main(["fake"])
    assert (tmp_path / "RESULTS.md").read_text().count("## fake on") == 1


@pytest.mark.parametrize(
    "file",
    sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py")),
    ids=lambda file: file.stem,
)
def test_names_that_a_benchmark_imports_exist(file: Path) -> None:
    """Benchmarks run rarely, so a renamed function is found here."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ivqa"):
            module = importlib.import_module(str(node.module))
            absent = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not absent, f"{node.module} has no {absent}"


def test_the_comparison_of_devices_runs_every_hot_path_on_each() -> None:
    rows = cuda.run(devices=("cpu", "cpu"), scale=64)
    assert len(rows) == 5
    assert all(row["cpu, /s"] > 0 and row["ratio"] > 0 for row in rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_the_comparison_of_devices_says_that_there_is_none() -> None:
    with pytest.raises(SystemExit, match="there is no CUDA device on this machine"):
        cuda.run()


@pytest.mark.parametrize("model", ["mlb", "mutan", "n2nmn", "mcb"])
def test_the_networks_of_the_kernels_are_built_from_the_configuration(model: str) -> None:
    assert sum(weights.numel() for weights in kernels._network(model).parameters()) > 1e5
