"""The settings of the memory allocator, of the threads and of the garbage collector."""

import mmap
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ivqa.runs.memory import busy_share, idle_ticks


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is configured"
)
def test_the_next_step_reuses_freed_memory() -> None:
    def page_faults(first: str, **environment: str) -> int:
        code = f"""
import resource
from ivqa.runs.memory import keep_freed_memory
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
    assert page_faults("keep_freed_memory()") < pages / 10
    # The user's own setting is kept.
    trimmed = page_faults("keep_freed_memory()", MALLOC_TRIM_THRESHOLD_="131072")
    assert trimmed > pages / 2


def test_a_command_looks_for_garbage_seldom() -> None:
    """Objects that stay are not visited again and again."""
    code = """
import gc, sys
from pathlib import Path
from ivqa.command_line import entry_point
sys.argv = ["train.py", "--cfg", "job"]
COMMAND
kept = [[number] for number in range(1_000_000)]
print(sum(one["collections"] for one in gc.get_stats()))
"""

    def collections(command: str) -> int:
        run = [sys.executable, "-c", code.replace("COMMAND", command)]
        return int(subprocess.check_output(run, text=True).split()[-1])

    assert collections('entry_point(Path("conf").absolute(), "train")') < collections("pass") / 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other threads than libgomp's")
@pytest.mark.parametrize(
    ("share", "chosen", "sleeps"),
    [(0.5, {}, True), (0.1, {}, False), (1.0, {"OMP_WAIT_POLICY": "ACTIVE"}, False)],
)
def test_threads_sleep_on_a_busy_machine(
    share: float, chosen: dict[str, str], sleeps: bool
) -> None:
    """OMP_DISPLAY_ENV makes libgomp print its settings when PyTorch loads it."""
    code = f"""
import sys
from pathlib import Path
from ivqa.command_line import entry_point
from ivqa.runs import memory
memory.busy_share = lambda: {share}
sys.argv = ["train.py", "--cfg", "job"]
entry_point(Path("conf").absolute(), "train")
import torch
"""
    environment = {name: x for name, x in os.environ.items() if not name.startswith("OMP_WAIT")}
    environment |= {"OMP_DISPLAY_ENV": "VERBOSE", **chosen}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "GOMP_SPINCOUNT" in done.stderr
    assert ("GOMP_SPINCOUNT = '0'" in done.stderr) == sleeps


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/stat is Linux's")
def test_a_machine_is_busy_with_a_program_on_each_of_its_cpus() -> None:
    code = "print(flush=True)\nwhile True: pass"
    programs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        assert busy_share(0.5) > 0.8
    finally:
        for program in programs:
            program.kill()
            program.communicate()


def test_idle_time_is_that_of_the_given_cpus() -> None:
    """user, nice, system, idle, waiting for a disk, two of interrupts, stolen, two of guests."""
    stat = """cpu  111 0 30 1530 10 1 2 3 50 0
cpu0 100 0 20 800 10 1 2 3 50 0
cpu1 1 0 0 700 0 0 0 0 0 0
cpu11 10 0 10 30 0 0 0 0 0 0
intr 5 1
"""
    assert idle_ticks(stat, {0, 1}) == (800 + 10 + 700, 936 + 701)
    assert idle_ticks(stat, {11}) == (30, 50)
