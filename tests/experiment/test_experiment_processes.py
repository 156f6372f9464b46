"""Memory that steps free, and work in a process of its own."""

import mmap
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ivqa.experiment.processes import beside


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def _note(file: Path) -> None:
    print("noted")
    file.write_text(f"{os.getpid()} {torch.get_num_threads()}")


def _wait_for(file: Path) -> str:
    for _ in range(600):
        if file.is_file() and file.read_text():
            return file.read_text()
        time.sleep(0.1)
    raise AssertionError(f"{file} was not written within a minute")


@pytest.mark.usefixtures("three_threads")
def test_a_task_runs_beside_the_block_with_half_of_the_threads(tmp_path: Path) -> None:
    with beside(_note, tmp_path / "file", log=tmp_path / "log"):
        assert torch.get_num_threads() == 2
        process, threads = _wait_for(tmp_path / "file").split()
    assert int(process) != os.getpid()
    assert int(threads) == 1
    assert torch.get_num_threads() == 3
    assert (tmp_path / "log").read_text() == "noted\n"


@pytest.mark.usefixtures("three_threads")
def test_the_block_has_all_threads_when_the_task_is_done(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGCHLD)
    with beside(_note, tmp_path / "file", log=tmp_path / "log"):
        subprocess.run([sys.executable, "-c", ""], check=True)  # the end of another changes nothing
        assert torch.get_num_threads() == 2
        _wait_for(tmp_path / "file")
        for _ in range(600):
            if torch.get_num_threads() == 3:
                break
            time.sleep(0.1)
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3
    assert signal.getsignal(signal.SIGCHLD) is handler


@pytest.mark.usefixtures("three_threads")
def test_the_end_of_the_block_ends_the_task(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="of the block"),
        beside(time.sleep, 3600, log=tmp_path / "log"),
    ):
        raise ValueError("of the block")
    assert torch.get_num_threads() == 3
    assert not multiprocessing.active_children()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator alone is set up")
def test_memory_that_a_step_frees_is_there_for_the_next() -> None:
    def page_faults(first: str, **environment: str) -> int:
        code = f"""
import resource
from ivqa.experiment import processes
{first}
def step():
    kept = [bytearray(10 << 20) for _ in range(6)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
        env = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
        command = [sys.executable, "-c", code]
        return int(subprocess.check_output(command, env=env | environment, text=True))

    pages = 5 * 60 * 2**20 // mmap.PAGESIZE
    assert page_faults("") > pages / 2
    assert page_faults("processes.keep_freed_memory()") < pages / 10
    # What the user chose stays.
    trimmed = page_faults("processes.keep_freed_memory()", MALLOC_TRIM_THRESHOLD_="131072")
    assert trimmed > pages / 2
