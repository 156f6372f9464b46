"""Sections of benchmarks/RESULTS.md, and the names that the benchmarks import."""

import ast
import importlib
import os
import platform
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import __main__ as runner
from benchmarks import cuda, device_work, diagnosis, kernels, lasso
from benchmarks.timing import paired
from numpy.typing import NDArray

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


# Sizes with which a benchmark takes seconds. Those of `run` are arguments.
SMALL: dict[str, dict[str, Any]] = {
    "input_pipeline": {"STEPS": 1, "IMAGES": 20},
    "extraction": {"IMAGES": 2, "BATCH": 2, "PAIRS": 1, "REPEATS": 1},
    "decoding": {"MAX_WORDS": 4, "SIZES": ((16, 30),)},
    "belief_search": {"PAIRS": 2, "LATENTS": 4, "PEER_LATENTS": 1},
    "diagnosis": {
        "run": [
            *("vqa=mlb", "num_images=2", "num_latents=8", "data.images={train:60,val:20,test:20}"),
            *("features.image_size=32", "features.width=16", "features.epochs=1"),
            *("vqa.epochs=1", "vqa.batch_size=16", "model.epochs=1", "model.epoch_steps=1"),
            *("model.parts.questioner.epochs=8", "model.parts.legality_model.epochs=1"),
            *("callbacks=default", "legality=0"),
        ]
    },
    "kernels": {"COMPARED": {"all": (kernels.NAMES, ("mutan", "n2nmn"))}},
    "device_work": {"run": 64},
    "caption_metrics": {"PAIRS": 60, "DIVERSE_PAIRS": 2, "QUESTIONS_A_PAIR": 3},
    "text_metrics": {"MAIN": 3, "BASIC": 40, "PEER_PAIRS": 4},
    "lasso": {
        "PROBLEMS": (lasso.Problem("non-negative", 384, 4, {"scikit-learn": 1, "skglm": 1}),),
        "sentence_vectors": lambda size, start: (*np.split(unit_vectors(size), [60]), "random"),
    },
    "served_model": {"PICTURES": 2, "QUESTIONS_EACH": 2, "LATENCY": 0.0},
    "scale": {},
    "large_diagnosis": {"run": (450, 900)},
}


def unit_vectors(size: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(0).normal(size=(64, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def once(first: Callable[[], object], second: Callable[[], object], *_: Any, **__: Any) -> Any:
    """Instead of `benchmarks.timing.paired`."""
    return paired(first, second, repeats=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", runner.NAMES)
def test_a_benchmark_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    for key, value in SMALL[name].items():
        if key != "run":
            monkeypatch.setattr(module, key, value)
    if hasattr(module, "paired"):
        monkeypatch.setattr(module, "paired", once)
    threads = torch.get_num_threads()
    try:
        rows = module.run(*([SMALL[name]["run"]] if "run" in SMALL[name] else []))
    finally:
        torch.set_num_threads(threads)
    assert rows
    for row in rows:
        numbers = [value for value in row.values() if isinstance(value, float | int)]
        assert numbers
        assert np.isfinite(numbers).all(), row


def test_the_comparison_of_devices_runs_every_hot_path_on_each() -> None:
    rows = cuda.run(devices=("cpu", "cpu"), scale=64)
    assert len(rows) == 10
    assert all(row["cpu, /s"] > 0 and row["ratio"] > 0 for row in rows)


def test_a_search_of_beliefs_asks_a_device_for_no_text() -> None:
    rows = {row["hot path"]: row for row in device_work.run(scale=64)}
    search, sampled = rows["z x pairs, beliefs"], rows["sampled questions, ivqa_vae"]
    assert search["questions"] == 625
    # The text is the answer of all pairs.
    assert (search["texts"], sampled["texts"]) == (1, 1)
    assert search["kernels"] > sampled["kernels"] > 100
    assert sampled["waits"] < 10


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
