"""Faults other than kills: signals, full and read-only disks, several processes, clocks, locks."""

import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attempts import Ended, finish, orphans, printed, run, start, stop_orphans
from bench import Bench, last_line
from jobs import Job, again
from trees import differences

Check = Callable[[Bench, Mapping[str, Job], random.Random], tuple[str, list[str]]]
"""Returns how often the fault happened, or why it could not, and what went wrong."""

MANY = ("scenes", "features", "vqa", "policy", "beliefs", "ranking")
_YEARS = 10 * 365 * 86400


def interrupted(
    number: int, bench: Bench, jobs: Mapping[str, Job], rng: random.Random
) -> tuple[str, list[str]]:
    """A signal ends each job with its status and a sentence, and the job continues."""
    faults: list[str] = []
    hits = 0
    for name in _chosen(
        jobs, "scenes", "features", "vqa", "policy", "beliefs", "ranking", "sweep", "endpoint"
    ):
        job = jobs[name]
        seconds = bench.prepare(job).seconds
        after = rng.uniform(0.3, 0.9) * seconds
        ended = run(job.command, bench.place, signal_after=after, number=number)
        said = printed(bench.place)
        hits += ended.status != 0
        if ended.status not in (0, 128 + number):
            faults.append(f"{name}: exit status {ended.status}: {last_line(bench.place)}")
        if ended.status and ("interrupted; written files" not in said or "Traceback" in said):
            faults.append(f"{name}: no clean message: {last_line(bench.place)}")
        if left := orphans(bench.place):
            faults.append(f"{name}: still runs: {left[0]}")
            stop_orphans(bench.place)
        faults += [f"{name}: {fault}" for fault in bench.complete(job)]
    return str(hits), faults


def disk_full(bench: Bench, jobs: Mapping[str, Job], rng: random.Random) -> tuple[str, list[str]]:
    """A disk that is full at a random moment is named, and with more room the job continues."""
    if os.geteuid():
        return "skipped: mounting a small disk needs root", []
    faults: list[str] = []
    hits = 0
    for name in _chosen(
        jobs, "scenes", "features", "pixels", "vqa", "policy", "beliefs", "ranking"
    ):
        job = jobs[name]
        bench.prepare(job)
        before = _size(bench.place)
        needed = _size(bench.expected(job)) - before
        with _disk(bench.place, before + int(rng.uniform(0.1, 0.9) * needed)) as grow:
            ended = run(job.command, bench.place)
            hits += ended.status != 0
            faults += _refused(name, ended, bench, ("No space left", "make room"))
            grow()
            faults += [f"{name}: {fault}" for fault in bench.complete(job)]
    return str(hits), faults


def read_only(bench: Bench, jobs: Mapping[str, Job], rng: random.Random) -> tuple[str, list[str]]:
    """A folder that cannot be written is named before anything is lost."""
    faults: list[str] = []
    hits = 0
    for name in _chosen(jobs, "scenes", "vqa", "ranking", "endpoint"):
        job = jobs[name]
        bench.prepare(job)
        with _read_only(bench.place):
            ended = run(job.command, bench.place)
            hits += ended.status != 0
            faults += _refused(name, ended, bench, ("Permission denied", "Read-only", "permission"))
        faults += [f"{name}: {fault}" for fault in bench.complete(job)]
    return str(hits), faults


def together(
    number: int, bench: Bench, jobs: Mapping[str, Job], rng: random.Random
) -> tuple[str, list[str]]:
    """Processes that need the same artifacts at once all end as one alone does."""
    faults: list[str] = []
    hits = 0
    for name in _chosen(jobs, "scenes", "features", "beliefs", "endpoint"):
        # Without the prepared artifacts, so that the processes make them all.
        job = Job(jobs[name].command, resumes=False)
        bench.prepare(job)
        started = time.monotonic()
        commands = [
            tuple(f"output_dir=other{n}" if n and w == "output_dir=run" else w for w in job.command)
            for n in range(number)
        ]
        running = [start(command, bench.place) for command in commands]
        for n, process in enumerate(running):
            if (ended := finish(process, started)).status:
                faults.append(f"{name}: process {n} ended with status {ended.status}")
        # Only the first one counts. A part records the command and the folder of the process that
        # trained it.
        found = differences(bench.expected(job), bench.place)
        own = ("/other", "/run/overrides.yaml: other content", ".best_k_models.")
        faults += [f"{name}: {fault}" for fault in found if not any(text in fault for text in own)]
        hits += 1
    return str(hits), faults


def clock(bench: Bench, jobs: Mapping[str, Job], rng: random.Random) -> tuple[str, list[str]]:
    """Times of files in the future or the past, and a clock that jumps back, change nothing."""
    faults: list[str] = []
    hits = 0
    for name in _chosen(jobs, "features", "vqa", "beliefs", "ranking"):
        job = jobs[name]
        normal = bench.prepare(job)
        run(job.command, bench.place, kill_at=rng.randint(1, normal.changes))
        shift = rng.choice((-_YEARS, _YEARS))
        for file in bench.place.rglob("*"):
            os.utime(file, (time.time() + shift,) * 2, follow_symlinks=False)
        ended = run(again(job, bench.place), bench.place, before=partial(_jump, -shift))
        if ended.status:
            faults.append(f"{name}: exit status {ended.status}: {last_line(bench.place)}")
        faults += [f"{name}: {fault}" for fault in bench.complete(job)]
        hits += 1
    return str(hits), faults


def locks(bench: Bench, jobs: Mapping[str, Job], rng: random.Random) -> tuple[str, list[str]]:
    """A file system without locks is named, or the command works without them."""
    faults: list[str] = []
    hits = 0
    for name in _chosen(jobs, "features"):
        for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            job, what = jobs[name], errno.errorcode[number]
            bench.prepare(job)
            ended = run(job.command, bench.place, before=partial(_without_locks, number))
            hits += 1
            faults += _refused(what, ended, bench, ("cannot be locked",))
            faults += [f"{what}: {fault}" for fault in bench.complete(job)]
    return str(hits), faults


CHECKS: dict[str, Check] = {
    "SIGINT": partial(interrupted, signal.SIGINT),
    "SIGTERM": partial(interrupted, signal.SIGTERM),
    "disk full": disk_full,
    "read-only folder": read_only,
    "2 processes": partial(together, 2),
    "4 processes": partial(together, 4),
    "clock": clock,
    "locks": locks,
}


def _chosen(jobs: Mapping[str, Job], *names: str) -> list[str]:
    return [name for name in names if name in jobs]


def _refused(name: str, ended: Ended, bench: Bench, words: Sequence[str]) -> list[str]:
    """What is wrong with the refusal of a command; an end without error is none."""
    said = " ".join(printed(bench.place).split())
    if ended.status == 0:
        return []
    if ended.status != 1 or "Traceback" in said or not any(word in said for word in words):
        return [f"{name}: exit status {ended.status}: {last_line(bench.place)}"]
    return []


@contextmanager
def _disk(place: Path, size: int) -> Any:
    """Puts the content of a folder on a disk of its own; gives a function that enlarges it."""
    content = place.with_name("content")
    shutil.rmtree(content, ignore_errors=True)
    place.rename(content)
    place.mkdir()

    def mount(*options: str) -> None:
        subprocess.run(["mount", *options, str(place)], check=True)

    mount("-t", "tmpfs", "-o", f"size={size + (64 << 10)}", "tmpfs")
    try:
        shutil.copytree(content, place, symlinks=True, dirs_exist_ok=True)
        yield lambda: mount("-o", "remount,size=1g")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        shutil.rmtree(content)


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, in whole pages."""
    sizes = (file.lstat().st_size for file in folder.rglob("*") if not file.is_symlink())
    return sum(-(-size // 4096) * 4096 for size in sizes)


@contextmanager
def _read_only(place: Path) -> Iterator[None]:
    """Makes a folder read-only; for root, who may write everywhere, by a mount."""
    if os.geteuid():
        place.chmod(0o555)
        yield
        place.chmod(0o755)
        return
    subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _jump(seconds: float) -> None:
    """The clock jumps when it is read for the second time, and back for the third."""
    real, reads = time.time, iter(range(10**9))
    time.time = lambda: real() + seconds * (next(reads) % 2)


def _without_locks(number: int) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    fcntl.flock = fail
