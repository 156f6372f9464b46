"""kill -9 at random moments and at random changes of files."""

import random
import signal
from dataclasses import dataclass, field

from attempts import orphans, run, stop_orphans
from bench import Bench, last_line
from jobs import Job, again

MOST_KILLS = 3  # of a round


@dataclass
class Tally:
    """The rounds of a job.

    Attributes:
        rounds: Their number.
        kills: The kills that met a running process.
        faults: What went wrong.
    """

    rounds: int = 0
    kills: int = 0
    faults: list[str] = field(default_factory=list)


def kill_round(bench: Bench, job: Job, rng: random.Random, tally: Tally) -> None:
    """Kills a job up to MOST_KILLS times, then lets it end and compares the result.

    Half of the kills come at a moment, the other half just before a change of a file.

    Args:
        bench: The workplace.
        job: The job.
        rng: Chooses number and moments of the kills.
        tally: Receives the result.
    """
    normal = bench.prepare(job)
    tally.rounds += 1
    for _ in range(rng.randint(1, MOST_KILLS)):
        command = again(job, bench.place)
        if rng.random() < 0.5:
            ended = run(command, bench.place, kill_at=rng.randint(1, normal.changes))
        else:
            ended = run(command, bench.place, signal_after=rng.uniform(0, normal.seconds))
        if ended.status == 0:
            break
        if ended.status != 128 + signal.SIGKILL:
            tally.faults.append(f"exit status {ended.status}: {last_line(bench.place)}")
            return
        tally.kills += 1
    tally.faults += bench.complete(job)
    if left := orphans(bench.place):
        tally.faults.append(f"still runs: {left[0]}")
        stop_orphans(bench.place)
