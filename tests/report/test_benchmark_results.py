"""Sections of benchmarks/RESULTS.md, and the names that the benchmarks import."""

import ast
import importlib
import os
import platform
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from benchmarks import __main__ as runner
from benchmarks import cuda, diagnosis, kernels

from ivqa.runs import trained_models
from ivqa.tasks import diagnose as diagnose_task


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


def test_time_counts_for_the_innermost_stage() -> None:
    """Functions of these names count where they are ivqa's own."""
    source = "def fit(look): return look()\ndef obtain_module(look): return fit(look)\n"
    places = {"/x/ivqa/runs.py": diagnosis.STAGES["fit"], "/x/other/runs.py": None}
    for file, stage in places.items():
        names: dict[str, Any] = {}
        exec(compile(source, file, "exec"), names)
        assert names["obtain_module"](lambda: diagnosis.stage_of(sys._getframe())) == stage
    names["obtain_module"].__code__ = names["obtain_module"].__code__.replace(
        co_filename="/x/ivqa/runs.py"
    )
    found = names["obtain_module"](lambda: diagnosis.stage_of(sys._getframe()))
    assert found == diagnosis.STAGES["obtain_module"]


def test_the_stages_are_functions_that_a_diagnosis_calls() -> None:
    called = {
        node.func.id
        for file in (diagnose_task.__file__, trained_models.__file__)
        for node in ast.walk(ast.parse(Path(str(file)).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert diagnosis.STAGES.keys() <= called
