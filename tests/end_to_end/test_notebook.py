"""docs/one_picture.ipynb runs from a fresh folder, and its stored outputs come from such a run."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

from .conftest import PROJECT

NOTEBOOK = PROJECT / "docs" / "one_picture.ipynb"


def _cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _printed(cell: dict[str, Any]) -> list[str]:
    return [line for output in cell["outputs"] for line in output.get("text", [])]


def test_the_stored_outputs_are_complete() -> None:
    cells = _cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds == {"stream", "execute_result"}  # no errors


@pytest.mark.slow  # generates the embedded data
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    GlobalHydra.instance().clear()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in _cells():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), namespace)
        lines = [line for line in printed.getvalue().splitlines() if line.strip()]
        assert len(lines) >= len(_printed(cell)) - 1  # weights may be trained instead of released
    assert namespace["answers"] == namespace["vqa"].answer(
        namespace["picture"], namespace["questions"]
    )
    assert namespace["scores"].shape == (2, 2)
    assert 0 < len(namespace["found"].beliefs) <= 60
    assert namespace["page"].is_file()
    assert (tmp_path / "artifacts" / "features").is_dir()
