"""Sections of benchmarks/RESULTS.md carry a note if their code has changed."""

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
from benchmarks import cuda, staleness

TEXT = "## lasso on AVX2\n\nClaim: fast.\n\n{}| a |\n|---|\n| 1 |\n"


def test_a_section_of_the_current_code_has_no_note() -> None:
    section = TEXT.format(staleness.record("lasso") + "\n\n")
    assert staleness.noted(section, "lasso") == section


def test_a_section_of_other_code_names_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    section = TEXT.format("<!-- commit abc1234, code other -->\n\n")
    once = staleness.noted(section, "lasso")
    assert "\n\n**Older code.** Measured at commit abc1234; the code of lasso has changed" in once
    assert staleness.noted(once, "lasso") == once
    monkeypatch.setattr(staleness, "code_digest", lambda roots: "other")
    assert staleness.noted(once, "lasso") == section


def test_a_section_without_a_record_says_so() -> None:
    assert "The commit was not recorded" in staleness.noted(TEXT.format(""), "lasso")


def test_the_digest_covers_the_measured_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from ivqa import code_digest

    before, source = staleness.record("lasso"), code_digest._source

    def changed(file: Path, modified_ns: int, module: str) -> code_digest._Source:
        found = source(file, modified_ns, module)
        return found._replace(digest="new") if module == "ivqa.lasso.active_set" else found

    monkeypatch.setattr(code_digest, "_source", changed)
    assert staleness.record("lasso") != before


def test_checking_rewrites_only_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "RESULTS.md"
    file.write_text("# Benchmarks\n\n" + TEXT.format(""))
    monkeypatch.setattr(runner, "RESULTS", file)
    runner.main(["--check"])
    assert "**Older code.**" in file.read_text()
    assert staleness._NOTE.sub("", file.read_text()) == "# Benchmarks\n\n" + TEXT.format("")


def test_a_section_has_machine_versions_seed_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ModuleType("benchmarks.fake", "Claim: fast.")
    fake.run = lambda: [{"seed": torch.initial_seed(), "draw": random.random()}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.fake", fake)
    monkeypatch.setattr(runner, "NAMES", ("fake",))
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(runner, "record", lambda name: "<!-- commit abc1234, code x -->")
    monkeypatch.setattr(runner, "noted", lambda section, name: section)
    runner.main(["fake"])
    once = (tmp_path / "RESULTS.md").read_text()
    assert f"{os.cpu_count()} cores (" in once
    assert f", seed 0, Python {platform.python_version()}, torch {torch.__version__}, " in once
    assert "<!-- commit abc1234, code x -->" in once
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
