"""The artifact store, used by several processes."""

import threading
from pathlib import Path

import pytest

from ivqa.store.artifact_store import ArtifactStore


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
