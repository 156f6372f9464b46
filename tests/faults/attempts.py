"""Runs commands in forked processes, and kills them at a moment or at a change of a file.

A fork of a process that has imported PyTorch starts in milliseconds, so that kills fall into the
work and not into the imports.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ivqa.command_line import entry_point

PROJECT = Path(__file__).resolve().parents[2]
_FORK = multiprocessing.get_context("fork")
_TIMEOUT = 600.0  # seconds; a command that takes longer hangs

Command = tuple[str, ...]
"""The name of a command and its overrides: ("train", "model=mlb")."""

# Changes of files that Python reports before it makes them.
_CHANGES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
    *("shutil.rmtree", "shutil.copyfile"),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: The exit status as a shell shows it: 137 after a kill.
        seconds: Its time.
        changes: The number of changes of files.
    """

    status: int
    seconds: float
    changes: int


def start(
    command: Command,
    folder: Path,
    before: Callable[[], Any] | None = None,
    kill_at: int = 0,
    changes: Any = None,
) -> BaseProcess:
    """Starts a command in a process of its own.

    Args:
        command: The command.
        folder: Its working directory. What it prints is written beside it, where no fault reaches.
        before: Called in the process first.
        kill_at: The process kills itself before its change of files of this number; 0: never.
        changes: A shared integer that counts the changes.
    """

    def run() -> None:
        os.setsid()
        os.chdir(folder)
        with _output(folder).open("ab", buffering=0) as output:
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
        print(f"\n$ {' '.join(command)}", flush=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if before is not None:
            before()
        _watch(folder, kill_at, changes)
        sys.argv = [f"{command[0]}.py", *command[1:]]
        entry_point(PROJECT / "conf", command[0])

    process = _FORK.Process(target=run)
    process.start()
    return process


def finish(process: BaseProcess, started: float, changes: int = 0) -> Ended:
    """Waits until a command ends; one that hangs is killed and has status 124."""
    process.join(_TIMEOUT - (time.monotonic() - started))
    if process.is_alive():
        process.kill()
        process.join()
        return Ended(124, time.monotonic() - started, changes)
    code = process.exitcode or 0
    return Ended(128 - code if code < 0 else code, time.monotonic() - started, changes)


def run(
    command: Command,
    folder: Path,
    *,
    before: Callable[[], Any] | None = None,
    kill_at: int = 0,
    signal_after: float | None = None,
    number: int = signal.SIGKILL,
) -> Ended:
    """Runs a command to its end, or until a signal.

    Args:
        command: The command.
        folder: Its working directory.
        before: Called in the process first.
        kill_at: The process is killed before its change of files of this number; 0: never.
        signal_after: Seconds after which a signal is sent, if the process still runs.
        number: The signal.
    """
    started = time.monotonic()
    changes = _FORK.Value("i", 0)
    process = start(command, folder, before, kill_at, changes)
    if signal_after is not None:
        process.join(signal_after)
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)
    ended = finish(process, started)
    return Ended(ended.status, ended.seconds, changes.value)


def printed(folder: Path) -> str:
    """What the last command in a folder printed."""
    return _output(folder).read_text(errors="replace").rpartition("\n$ ")[2]


def orphans(folder: Path, patience: float = 10.0) -> list[str]:
    """The processes that still work in a folder after some seconds."""
    deadline = time.monotonic() + patience
    while (found := _working_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def stop_orphans(folder: Path) -> None:
    """Kills the processes that work in a folder."""
    for entry in _working_in(folder):
        os.kill(int(entry.split()[0]), signal.SIGKILL)


def _output(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.txt")


def _working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder.resolve():
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if " Z " not in (process / "stat").read_text():
                    found.append(f"{process.name} {words}")
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def _watch(folder: Path, kill_at: int, changes: Any) -> None:
    """Counts the changes of files below `folder`, and kills the process before one of them."""
    if changes is None:
        return
    pid, root = os.getpid(), str(folder.resolve())

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING:
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        if not isinstance(path, str | bytes | os.PathLike) or os.getpid() != pid:
            return
        place = os.path.abspath(os.fsdecode(path))
        if not place.startswith(root):
            return
        changes.value += 1
        if changes.value == kill_at:
            os.kill(pid, signal.SIGKILL)

    sys.addaudithook(hook)
