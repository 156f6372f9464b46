"""A search continues after its last chunk, and refuses files that were changed."""

from pathlib import Path
from typing import Any

import pytest

from ivqa.diagnosis import Belief, read_beliefs
from ivqa.diagnosis.belief_log import LAYOUT, BeliefLog
from ivqa.files import FileError, bytes_digest, digest, write_json

BELIEFS = [Belief(n, "yes", "Is it red?", 0.5, -3.0, 0.9, "rl") for n in range(3)]
LINES = "".join(belief.line() for belief in BELIEFS)


def _write_progress(file: Path, state: dict[str, Any]) -> None:
    write_json(file.with_name("progress.json"), {"state": state, "digest": digest(state)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three beliefs of two pairs, and a fourth line that a kill has cut short."""
    file = tmp_path / "beliefs.jsonl"
    state = {"layout": LAYOUT, "pairs": 2, "bytes": len(LINES), "figures": [{"a": 0.1}]}
    _write_progress(file, {**state, "content": bytes_digest(LINES.encode())})
    file.write_text(LINES + BELIEFS[0].line()[:20])
    return file


def test_a_search_continues_after_its_last_complete_chunk(file: Path) -> None:
    log = BeliefLog(file)
    assert (log.pairs, log.figures) == (2, [{"a": 0.1}])
    assert file.read_text() == LINES


def test_a_finished_search_keeps_its_types(file: Path) -> None:
    log = BeliefLog(file)
    typed = [Belief(**{**vars(belief), "type": "rephrase"}) for belief in BELIEFS]
    log.finish(typed)
    assert BeliefLog(file).pairs == 2
    assert read_beliefs(file) == typed
    # A kill between progress.json and beliefs.jsonl leaves the beliefs without types.
    file.write_text(LINES)
    assert BeliefLog(file).pairs == 2


def test_a_search_without_progress_starts_again(file: Path) -> None:
    file.with_name("progress.json").unlink()
    assert BeliefLog(file).pairs == 0
    assert file.read_bytes() == b""


def test_a_search_of_another_version_is_refused(file: Path) -> None:
    state = {"pairs": 2, "bytes": len(LINES), "figures": [], "content": "x"}
    _write_progress(file, {**state, "layout": LAYOUT - 1})
    with pytest.raises(FileError, match="written by another version of ivqa; delete"):
        BeliefLog(file)


def _changed_state(file: Path, **changes: Any) -> None:
    state = {"pairs": 2, "bytes": len(LINES), "figures": [{"a": 0.1}], "content": "x", **changes}
    write_json(file.with_name("progress.json"), {"state": state, "digest": "0123456789abcdef"})


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda file: file.write_text(LINES[:-1]), "beliefs.jsonl was cut short or changed"),
        (lambda file: file.write_text(""), "beliefs.jsonl was cut short or changed"),
        (lambda file: file.write_text(LINES.replace("red", "tan")), "beliefs.jsonl was cut short"),
        (lambda file: file.with_name("progress.json").write_text("{"), "progress.json: invalid"),
        (lambda file: file.with_name("progress.json").write_text(""), "progress.json is empty"),
        (lambda file: file.with_name("progress.json").write_text("[]"), "progress.json holds"),
        (lambda file: _changed_state(file, pairs=1), "progress.json was changed after"),
        (lambda file: write_json(file.with_name("progress.json"), {}), "progress.json was changed"),
    ],
)
def test_the_error_names_the_changed_file(spoil: Any, named: str, file: Path) -> None:
    spoil(file)
    with pytest.raises(FileError) as raised:
        BeliefLog(file)
    assert named in str(raised.value)
