"""The artifact store, used by several processes."""

import threading
from pathlib import Path

import pytest

from ivqa.store.artifact_store import ArtifactStore, training_log


def test_the_second_process_reports_that_it_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ArtifactStore(tmp_path)
    folder = store.folder("models", "mlb", {"seed": 1})
    told: list[str] = []

    def second() -> None:
        with store.building(folder, {"seed": 1}):
            told.append("second")

    with store.building(folder, {"seed": 1}):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive()
        told.append("first")
    thread.join(timeout=60)
    assert told == ["first", "second"]
    assert f"Waiting for the process that makes {folder}" in capsys.readouterr().out
    assert (folder / "identity.json").is_file()


def test_a_model_that_is_not_trained_has_no_training_log(tmp_path: Path) -> None:
    """The store stands for it, beside which a folder of the user may have such a name."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.csv").write_text("step\n")
    (tmp_path / "artifacts").mkdir()
    assert not training_log(tmp_path / "artifacts").is_file()
