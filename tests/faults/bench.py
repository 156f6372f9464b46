"""The workplace of the faults: fresh folders with the same content, and the undisturbed results."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from attempts import Command, Ended, printed, run
from jobs import Job, again
from trees import differences

from ivqa.store.digests import digest


@dataclass
class Bench:
    """Runs jobs in `folder`/place, because checkpoints and configurations name their folder.

    Attributes:
        folder: The folder of everything.
        data: The data root that the jobs read.
        undisturbed: How each job ended without a fault, by the folder of its result.
    """

    folder: Path
    data: Path
    undisturbed: dict[Path, Ended] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        """The folder in which every command runs."""
        return self.folder / "place"

    def prepare(self, job: Job) -> Ended:
        """Empties the place and fills it with what a job finds; runs the job undisturbed before.

        Args:
            job: The job.

        Returns:
            How the undisturbed job ended.
        """
        prepared = self.folder / f"prepared_{digest(job.prepared)}"
        if not prepared.is_dir():
            self._fill(None)
            for command in job.prepared:
                self._finished(command)
            shutil.move(self.place, prepared)
        if not self.expected(job).is_dir():
            self._fill(prepared)
            self.undisturbed[self.expected(job)] = self._finished(job.command)
            shutil.move(self.place, self.expected(job))
        self._fill(prepared)
        return self.undisturbed[self.expected(job)]

    def complete(self, job: Job) -> list[str]:
        """Runs a job again until it ends, and compares the result with the undisturbed one.

        Args:
            job: The job.

        Returns:
            What differs; empty if all is equal.
        """
        ended = run(again(job, self.place), self.place)
        if ended.status:
            return [f"exit status {ended.status}: {last_line(self.place)}"]
        return differences(self.expected(job), self.place)

    def expected(self, job: Job) -> Path:
        """The folder of the undisturbed result."""
        return self.folder / f"expected_{digest([job.command, job.prepared])}"

    def keep(self, name: str) -> None:
        """Keeps the place for people who look for the reason of a fault."""
        target = self.folder / "failed" / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.place, target, symlinks=True)
        target.with_suffix(".txt").write_text(self.place.with_suffix(".txt").read_text())

    def _fill(self, source: Path | None) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.with_suffix(".txt").write_text("")
        if source is None:
            self.place.mkdir(parents=True)
            (self.place / "data").symlink_to(self.data)
        else:
            shutil.copytree(source, self.place, symlinks=True)

    def _finished(self, command: Command) -> Ended:
        ended = run(command, self.place)
        if ended.status:
            raise SystemExit(f"undisturbed command failed:\n{printed(self.place)}")
        return ended


def last_line(folder: Path) -> str:
    """The last line that a command printed."""
    lines = [line for line in printed(folder).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "nothing printed"
