"""Goal: `diagnose.py vqa=mlb` takes less than 150 s the first time and 45 s the second.

The table says where the time goes, on two cores. All defaults and an empty artifact store: the
first run generates the scenes, computes their features and trains the policy from the released
weights; the second finds these in the store. A thread looks every 100 ms at what the main thread
does, and the time since its last look counts for the innermost of the stages below. `start` is what
comes before the first of them: Python, imports, Hydra and the checks.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
START, ALL = "start", "all"
# A stage by the function that does it; in the table, stages have the order of this table.
STAGES = {
    "open_context": "data",
    "with_features": "image features",
    "obtain_module": "loading weights",
    "fit": "training the policy",
    "accuracy_of": "accuracy",
    "measured": "accuracy under noise",
    "_search_beliefs": "search",
    "follow_up_answers": "follow-up questions",
    "with_suspects": "contradictions and suspects",
    "_type_beliefs": "types",
    "write_challenge": "challenging set",
    "_explain": "words and places behind beliefs",
    "write_belief_page": "report",
}
_LOOK = 0.1  # seconds between two looks: each takes a processor from the work


def run(arguments: Sequence[str] = ("vqa=mlb",)) -> list[dict[str, Any]]:
    """One row a stage: seconds of the first and of the second run."""
    with tempfile.TemporaryDirectory() as folder:
        times = [
            _timed([*arguments, f"artifacts={folder}/store", f"output_dir={folder}/{name}"])
            for name in ("first", "second")
        ]
    return [
        {"stage": stage, "first run, s": times[0][stage], "second run, s": times[1][stage]}
        for stage in (START, *STAGES.values(), ALL)
        if any(one[stage] >= 0.05 for one in times)
    ]


def _timed(arguments: Sequence[str]) -> Mapping[str, float]:
    """Runs diagnose.py in a process of its own; seconds by stage."""
    with tempfile.TemporaryDirectory() as folder:
        file, began = Path(folder) / "times.json", time.monotonic()  # one clock for all processes
        code = f"from benchmarks.diagnosis import watch; watch({str(file)!r}, {began})"
        done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, check=False)
        if done.returncode:
            sys.exit(f"error: diagnose.py {' '.join(arguments)} failed; its message is above")
        return Counter(json.loads(file.read_text()))


def watch(file: str, began: float) -> None:
    """Runs diagnose.py with the arguments of this process, and writes the seconds by stage."""
    with watched(threading.get_ident(), began) as times:
        try:
            runpy.run_path(str(ROOT / "diagnose.py"), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    Path(file).write_text(json.dumps(times))


@contextmanager
def watched(thread: int, began: float) -> Iterator[Counter[str]]:
    """Counts the seconds of a thread by stage, until the end of the block, and those of all.

    Args:
        thread: Its identity.
        began: When the first stage began, by time.monotonic().
    """
    times: Counter[str] = Counter()
    ended = threading.Event()

    def look() -> None:
        last, stage = began, START
        while not ended.wait(_LOOK):
            stage = stage_of(sys._current_frames()[thread]) or stage
            now = time.monotonic()
            times[stage] += now - last
            times[ALL] += now - last
            last = now

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield times
    finally:
        ended.set()
        watcher.join()


def stage_of(frame: FrameType | None) -> str | None:
    """The stage of the innermost function of ivqa that does one; None if none does."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in STAGES and f"{os.sep}ivqa{os.sep}" in code.co_filename:
            return STAGES[code.co_name]
        frame = frame.f_back
    return None
