"""Sweeps without an account: Optuna draws points, a launcher of Hydra runs each as a job.

The folder of a sweep holds study.journal (Optuna's storage, to which every step is appended),
one numbered folder for each point, and at the end the table and the plot.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from hydra.core.utils import JobReturn
from omegaconf import DictConfig, open_dict
from optuna.distributions import CategoricalDistribution, distribution_to_json
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console

from ivqa.config.checks import check_config
from ivqa.config.error_messages import is_user_error
from ivqa.config.short_forms import shortened, written_out
from ivqa.errors import UserError, reason_of
from ivqa.report.plots import write_sweep_plot
from ivqa.report.tables import cell, print_table, write_table
from ivqa.runs.run_directory import read_metrics
from ivqa.store.files import read_bytes, write_bytes
from ivqa.store.locks import folder_lock
from ivqa.sweeps.sweep_files import SweepFile, override_text


@dataclass(frozen=True, kw_only=True)
class OptunaSweep:
    """A sweep in a folder.

    Attributes:
        fixed: The overrides that all points share.
        compose: Composes the configuration of a point from its overrides.
        launch: Runs jobs, given the overrides of each and the number of the first.
        points: The number of points; None for the file's run_cap, or all points of a grid.
        at_once: How many points the launcher gets at a time.
    """

    sweep: SweepFile
    fixed: Sequence[str]
    folder: Path
    compose: Callable[[Sequence[str]], DictConfig]
    launch: Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
    console: Console
    points: int | None = None
    seed: int = 1
    at_once: int = 1

    def run(self) -> optuna.Study:
        """Runs what the folder lacks; writes table.html (.md, .csv, .tex) and sweep.png.

        Points that failed or were interrupted in an earlier command run again as new points. One
        that fails now is noted, and the others still run. Each point is drawn with a seed of its
        own, so a sweep that was interrupted draws the same points as one that was not, if they run
        one at a time.

        Returns:
            Optuna's study with all points.

        Raises:
            UserError: A value of a parameter is invalid, the folder holds another sweep, the number
                of points is not known, or no point has a result.
        """
        self._check_values()
        wanted = self.number_of_points()
        with folder_lock(self.folder):
            say = f"sweep: {self.folder} (the same command continues it)"
            self.console.print(say, soft_wrap=True)
            study = self._open_study()
            self._enqueue(study)
            failures = 0
            while (left := wanted - failures - len(finished_trials(study))) > 0:
                trials = [self._ask(study) for _ in range(min(left, self.at_once))]
                failures += self._run(study, trials)
            self._show(study)
        return study

    def number_of_points(self) -> int:
        """The number of points with a result at which the sweep ends."""
        wanted = self.points or self.sweep.run_cap
        if self.sweep.method == "grid":
            size = len(self.sweep.grid())
            return min(wanted or size, size)
        if wanted is None:
            raise UserError(
                f"method={self.sweep.method} draws points without end; set run_cap in the sweep "
                "file, or pass trials=20"
            )
        return wanted

    def _overrides(self, params: Mapping[str, Any]) -> list[str]:
        """The overrides of one point, in Hydra's notation."""
        varied = [f"{key}={override_text(params[key])}" for key in self.sweep.parameters]
        return [*self.fixed, *map(written_out, varied)]

    def _check_values(self) -> None:
        """Composes and checks points that show each value once; of intervals, their bounds."""
        values = {
            key: own.choices if isinstance(own, CategoricalDistribution) else (own.low, own.high)
            for key, own in self.sweep.parameters.items()
        }
        for number in range(max(map(len, values.values()))):
            point = {key: own[number % len(own)] for key, own in values.items()}
            cfg = self.compose(self._overrides(point))
            with open_dict(cfg):
                del cfg["hydra"]
            check_config(cfg)

    def _open_study(self) -> optuna.Study:
        """The study in the folder; a new one if there is none."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        file = self.folder / "study.journal"
        # Optuna refuses to read what a kill left of the last line.
        if file.is_file() and not (content := read_bytes(file)).endswith(b"\n"):
            write_bytes(file, content[: content.rfind(b"\n") + 1])
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(file))),
            study_name="sweep",
            direction=self.sweep.metric.goal,
            load_if_exists=True,
        )
        identity = {
            "method": self.sweep.method,
            "metric": self.sweep.metric.name,
            "goal": self.sweep.metric.goal,
            "seed": self.seed,
            "overrides": sorted(self.fixed),
            **{key: distribution_to_json(own) for key, own in self.sweep.parameters.items()},
        }
        known = study.user_attrs.get("sweep", identity)
        for key in [*identity, *known]:
            if known.get(key) != identity.get(key):
                raise UserError(
                    f"{self.folder} holds a sweep with other settings ({key} is {known.get(key)} "
                    f"there, {identity.get(key)} here); choose another output_dir"
                )
        study.set_user_attr("sweep", identity)
        return study

    def _enqueue(self, study: optuna.Study) -> None:
        """Queues the points of a grid, or those that failed or were interrupted."""
        for trial in study.get_trials(states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
        # The parameters of a point in the queue are not drawn yet.
        points = [
            (trial.state, trial.system_attrs.get("fixed_params", trial.params))
            for trial in study.get_trials()
        ]
        present = [params for state, params in points if state is not TrialState.FAIL]
        failed = [params for state, params in points if state is TrialState.FAIL]
        for params in self.sweep.grid() if self.sweep.method == "grid" else failed:
            # One that was killed while it was drawn lacks parameters.
            if params not in present and params.keys() == self.sweep.parameters.keys():
                study.enqueue_trial(params)
                present.append(params)

    def _ask(self, study: optuna.Study) -> optuna.Trial:
        """The next point of the queue, or one drawn with a seed of its own."""
        drawn = sum(
            "fixed_params" not in trial.system_attrs
            and trial.params.keys() == self.sweep.parameters.keys()
            for trial in study.get_trials()
        )
        seed = int(np.random.SeedSequence((self.seed, drawn)).generate_state(1)[0])
        samplers = {"bayes": optuna.samplers.TPESampler}
        study.sampler = samplers.get(self.sweep.method, optuna.samplers.RandomSampler)(seed=seed)
        return study.ask({**self.sweep.parameters})

    def _run(self, study: optuna.Study, trials: Sequence[optuna.Trial]) -> int:
        """Runs points and stores their results; returns how many failed."""
        overrides = [self._overrides(trial.params) for trial in trials]
        returns: Sequence[JobReturn | Exception]
        try:
            returns = self.launch(overrides, trials[0].number)
        except Exception as error:  # a process of the launcher died
            returns = [error] * len(trials)
        results = zip(trials, returns, strict=True)
        return sum(not self._note(study, trial, result) for trial, result in results)

    def _note(
        self, study: optuna.Study, trial: optuna.Trial, result: JobReturn | Exception
    ) -> bool:
        """Stores the result of a point; returns whether it has one."""
        metric, file = self.sweep.metric.name, self.folder / str(trial.number) / "metrics.json"
        try:
            if isinstance(result, Exception):
                raise result
            _ = result.return_value  # raises the error of the job
            if metric not in (metrics := read_metrics(file)):
                raise UserError(f"{file} has no {metric}, the metric of the sweep file")
        except Exception as error:
            reason = reason_of(error)
            if not is_user_error(error):
                traceback.print_exception(error)
                reason = ": ".join(dict.fromkeys([type(error).__name__, reason]))
            trial.set_user_attr("error", reason)
            study.tell(trial, state=TrialState.FAIL)
            self.console.print(f"point {trial.number} failed: {reason}", soft_wrap=True)
            return False
        study.tell(trial, metrics[metric])
        best = f"best {cell(study.best_value)}, point {study.best_trial.number}"
        said = f"point {trial.number}: {metric} {cell(metrics[metric])} ({best})"
        self.console.print(said, soft_wrap=True)
        return True

    def _show(self, study: optuna.Study) -> None:
        """Writes and prints the table, best point first, and draws the plot."""
        metric, names = self.sweep.metric, unique_ends(list(self.sweep.parameters))
        failed, finished = failed_trials(study), finished_trials(study)
        if not finished:
            first = failed[0].user_attrs["error"]
            raise UserError(
                f"no point of the sweep in {self.folder} has a result; the first: {first}"
            )
        finished.sort(key=lambda trial: trial.values[0], reverse=metric.goal == "maximize")
        rows: list[dict[str, Any]] = [
            {
                "point": str(trial.number),
                metric.name: "failed" if trial.value is None else trial.value,
                **{name: trial.params[key] for key, name in names.items()},
            }
            for trial in [*finished, *failed]
        ]
        title = f"{len(finished)} of {len(rows)} points"
        runs = [[self.folder / str(trial.number)] for trial in [*finished, *failed]]
        write_table(self.folder, rows, title, runs=runs)
        print_table(rows, title=title, console=self.console)
        write_sweep_plot(self.folder / "sweep.png", rows[: len(finished)], metric.name)
        command = " ".join(map(shortened, self._overrides(finished[0].params)))
        for line in (
            *(f"point {one.number} failed: {one.user_attrs['error']}" for one in failed),
            f"best: point {finished[0].number}, {metric.name} {cell(finished[0].value)}",
            f"  python {self.sweep.program} {command}",
            f"table: {self.folder / 'table.html'} (and .md, .csv, .tex)",
            f"plot: {self.folder / 'sweep.png'}",
        ):
            self.console.print(line, soft_wrap=True)


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The points with a result, in the order of their numbers."""
    return study.get_trials(states=(TrialState.COMPLETE,))


def failed_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The points with an error that no later point repeats, in the order of their numbers."""
    trials = study.get_trials()
    return [
        trial
        for trial in trials
        if "error" in trial.user_attrs
        and trial.params not in [later.params for later in trials[trial.number + 1 :]]
    ]


def unique_ends(keys: Sequence[str]) -> dict[str, str]:
    """Gives each configuration key a heading: its shortest end that no other key has.

    >>> unique_ends(["model.epochs", "a.size", "b.size"])
    {'model.epochs': 'epochs', 'a.size': 'a.size', 'b.size': 'b.size'}
    """
    parts = {key: key.split(".") for key in keys}
    ends = {
        key: [".".join(own[at:]) for at in reversed(range(len(own)))] for key, own in parts.items()
    }
    seen = Counter(end for own in ends.values() for end in own)
    return {key: next((end for end in own if seen[end] == 1), key) for key, own in ends.items()}
