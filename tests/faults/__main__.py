"""Interrupts the long jobs of ivqa in every way, and compares their results: `make faults`.

    python tests/faults                             50 rounds of kills, and every other fault
    python tests/faults --rounds 500 --seed 1       more of them, at other moments
    python tests/faults --jobs vqa,ranking          these jobs
    python tests/faults --only SIG --rounds 0       faults whose name contains this, no kills

A round runs one job, kills it up to three times at random, runs the same command again (resume=
where it can) until it ends, and compares every file with that of an undisturbed run: tensors,
metrics and tables bit for bit, without times. The jobs take turns.
"""

import argparse
import os
import platform
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: a fork must not inherit its threads
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # helper modules of the tests

import torch
from attempts import PROJECT
from bench import Bench
from checks import CHECKS
from endpoint import endpoint
from jobs import jobs
from kills import Tally, kill_round

import ivqa.tasks.diagnose
import ivqa.tasks.evaluate
import ivqa.tasks.rank
import ivqa.tasks.train  # noqa: F401 - imported once, before the forks
from ivqa.scenes import generate_scenes


def main() -> int:
    """Prints a table; returns the number of jobs and faults with a defect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="rounds of kills")
    parser.add_argument("--jobs", default="", help="names of jobs, with commas; all by default")
    parser.add_argument("--only", default="", help="part of the name of a fault; kills are 'kill'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=PROJECT / "outputs" / "faults")
    arguments = parser.parse_args()
    started = time.monotonic()
    folder = arguments.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    sizes = {"train": 40, "val": 10}
    data = generate_scenes(folder / "data", images=sizes, workers=1, progress=False)
    bench = Bench(folder, data)
    rows: dict[str, tuple[str, str, list[str]]] = {}
    with endpoint() as url:
        listed = jobs(url)
        wanted = arguments.jobs.split(",") if arguments.jobs else list(listed)
        if unknown := set(wanted) - listed.keys():
            parser.error(f"no job '{min(unknown)}'; there are {', '.join(listed)}")
        listed = {name: listed[name] for name in wanted}
        tallies = {name: Tally() for name in wanted}
        for number in range(arguments.rounds if arguments.only in "kill" else 0):
            name = wanted[number % len(wanted)]
            before = tallies[name].kills, len(tallies[name].faults)
            rng = random.Random(f"{arguments.seed}/{name}/{number}")
            kill_round(bench, listed[name], rng, tallies[name])
            kills, faults = tallies[name].kills - before[0], tallies[name].faults[before[1] :]
            _report(f"round {number + 1}: {name}, {kills} kills", faults, bench)
        for name, tally in tallies.items():
            if tally.rounds:
                rows[f"kill -9: {name}"] = str(tally.rounds), str(tally.kills), tally.faults
        for name, check in CHECKS.items():
            if arguments.only in name:
                rng = random.Random(f"{arguments.seed}/{name}")
                done, faults = check(bench, listed, rng)
                _report(name, faults, bench)
                rows[name] = done, "", faults
    minutes = (time.monotonic() - started) / 60
    print(f"\nseed {arguments.seed}, {minutes:.0f} minutes, {_machine()}\n")
    print("| fault | rounds | kills | result |\n|---|---|---|---|")
    for name, (done, kills, faults) in rows.items():
        print(f"| {name} | {done} | {kills} | {faults[0] if faults else 'equal'} |")
    return sum(bool(faults) for _, _, faults in rows.values())


def _report(title: str, faults: list[str], bench: Bench) -> None:
    print(f"{title}: {'equal' if not faults else 'DEFECT'}", flush=True)
    for fault in faults:
        print(f"    {fault}", flush=True)
    if faults:
        bench.keep(title.replace(" ", "_").replace(":", "").replace(",", ""))


def _machine() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT, capture_output=True, text=True
    ).stdout.strip()
    cores = os.cpu_count()
    return f"{platform.machine()} with {cores} cores, torch {torch.__version__}, commit {commit}"


if __name__ == "__main__":
    sys.exit(main())
