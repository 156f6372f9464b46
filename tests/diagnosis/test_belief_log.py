"""A search continues after its last chunk, is shared, and refuses files that were changed."""

import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ivqa.diagnosis import Belief
from ivqa.diagnosis.search.belief_log import LAYOUT, BeliefLog
from ivqa.store.digests import digest
from ivqa.store.files import FileError, write_json

ORIGIN = {"seed": 1, "vqa": {"name": "mlb"}}


def _log(folder: Path, origin: dict[str, Any] | None = None) -> BeliefLog:
    """Five pairs in chunks of two."""
    return BeliefLog(folder / "parts", 5, 2, ORIGIN if origin is None else origin)


def _belief(pair: int) -> Belief:
    return Belief(pair, "yes", f"Is it {pair}?", 0.5, -3.0, 0.9, "rl")


def _search(log: BeliefLog, chunks: int | None = None) -> list[slice]:
    """Searches at most so many chunks; pair 0 has no belief."""
    searched = []
    for pairs in log.to_search():
        if len(searched) == chunks:
            break
        found = [_belief(pair) for pair in range(5)[pairs] if pair]
        log.write(pairs, found, {"rl": {"beliefs": len(found)}})
        searched.append(pairs)
    return searched


def test_a_search_continues_after_its_last_complete_chunk(tmp_path: Path) -> None:
    assert _search(_log(tmp_path), chunks=1) == [slice(0, 2)]
    log = _log(tmp_path)
    assert log.missing() == [1, 2]
    assert _search(log) == [slice(2, 4), slice(4, 6)]
    assert _log(tmp_path).beliefs() == [_belief(pair) for pair in (1, 2, 3, 4)]
    assert log.figures() == [{"rl": {"beliefs": number}} for number in (1, 2, 1)]
    assert _search(_log(tmp_path)) == []


def test_two_processes_share_a_search(tmp_path: Path) -> None:
    def search() -> None:
        log = BeliefLog(tmp_path / "parts", 12, 1, ORIGIN)
        for pairs in log.to_search():
            time.sleep(0.05)
            sums = {"rl": {"process": os.getpid()}, "beliefs": {"asked": pairs.start}}
            log.write(pairs, [_belief(pairs.start)], sums)
        assert not log.missing()  # also if the other process made the last chunk

    workers = [multiprocessing.get_context("fork").Process(target=search) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    log = BeliefLog(tmp_path / "parts", 12, 1, ORIGIN)
    assert log.beliefs() == [_belief(pair) for pair in range(12)]
    processes = {sums["rl"]["process"] for sums in log.figures()}
    assert processes == {worker.pid for worker in workers}
    assert log.questions_asked() == sum(range(12))  # of both processes


def test_a_search_with_other_settings_is_refused(tmp_path: Path) -> None:
    _search(_log(tmp_path), chunks=1)
    wanted = r"part_000000.json was written with other settings \(vqa.name is mlb there, san here\)"
    with pytest.raises(FileError, match=wanted):
        _log(tmp_path, {"seed": 1, "vqa": {"name": "san"}})
    with pytest.raises(FileError, match=r"num_pairs is 5 there, 6 here"):
        BeliefLog(tmp_path / "parts", 6, 2, ORIGIN)


def _replaced(file: Path, **changes: Any) -> None:
    """Changes the content of a chunk and its digest too."""
    content = json.loads(file.read_text())["content"] | changes
    write_json(file, {"content": content, "digest": digest(content)})


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda file: _replaced(file, layout=LAYOUT - 1), "written by another version of ivqa"),
        (lambda file: file.write_text(file.read_text().replace("Is", "Was")), "was changed after"),
        (lambda file: file.write_text("{"), "part_000000.json: invalid"),
        (lambda file: file.write_text(""), "part_000000.json is empty"),
        (lambda file: file.write_text("[]"), "part_000000.json holds"),
        (lambda file: write_json(file, {}), "was changed after"),
    ],
)
def test_the_error_names_the_changed_file(spoil: Any, named: str, tmp_path: Path) -> None:
    log = _log(tmp_path)
    _search(log)
    spoil(log.file(0))
    with pytest.raises(FileError) as raised:
        _log(tmp_path)
    assert named in str(raised.value)
