"""A small project whose commands are stand-ins, for the tests of `make results`."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.result_keys import Keys

from ivqa.store.digests import digest
from tools import results

# A stand-in for evaluate.py: writes results.json, counts how often it ran, fails when told to.
COMMAND = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1].removeprefix("output_dir="))
runs = pathlib.Path(f"runs_{out.name}.txt")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
if pathlib.Path("fail").exists():
    sys.exit(1)
model, step = ("model=blind", 0.05) if "model=blind" in sys.argv else ("model=mlb", 0.1)
jobs = [
    {"overrides": [model, "x=1", f"seed={seed}"], "metrics": {"acc": 0.5 + step * seed}}
    for seed in (1, 2)
]
(out / "results.json").write_text(json.dumps(jobs))
"""
CONF = """
- title: Models
  text: Percent.
  experiments:
    - name: models
      command: evaluate.py -m model=mlb seed=1,2
      metrics: {accuracy: [acc, .1%]}
    - name: photographs
      command: evaluate.py data.root=$IVQA_NO_SUCH_DATA
      needs: [IVQA_NO_SUCH_DATA]
      metrics: {accuracy: [acc, .1%]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one experiment that runs and one that lacks its data."""
    monkeypatch.delenv("IVQA_NO_SUCH_DATA", raising=False)
    for folder in ("conf", "docs", "src/ivqa"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "evaluate.py").write_text(COMMAND)
    (tmp_path / "conf" / "results.yaml").write_text(CONF)
    (tmp_path / "src" / "ivqa" / "model.py").write_text("version 1")

    def keys_of(commands: Sequence[Sequence[str]], conf: Path) -> Keys:
        model = tmp_path / "src" / "ivqa" / "model.py"
        found = {"measuring": [digest(list(map(list, commands)))], "mlb": [model.read_text()]}
        return Keys(found, {"MLB": 1})

    monkeypatch.setattr(results, "keys_of", keys_of)
    monkeypatch.setattr(results, "uncommitted", lambda root: "")
    return tmp_path
