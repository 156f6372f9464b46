"""Sweeps without an account: Optuna draws points, a launcher of Hydra runs each as a job.

The folder of a sweep holds study.journal (Optuna's storage, to which every step is appended),
one numbered folder for each point, and at the end the table and the plot.
"""

import itertools
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from hydra.core.utils import JobReturn
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console

from ivqa.config.error_messages import is_user_error
from ivqa.config.short_forms import written_out
from ivqa.errors import UserError, reason_of
from ivqa.report.tables import cell
from ivqa.runs.run_directory import read_metrics
from ivqa.store.files import read_bytes, write_bytes
from ivqa.sweeps.sweep_files import Parameter, SweepFile

Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
_JOURNAL = "study.journal"


@dataclass(frozen=True)
class SweepJob:
    """A sweep: what varies, what does not, and how many points it has.

    Attributes:
        sweep: The sweep file, with the parameters of this sweep.
        fixed: The overrides that all points share.
        points: The number of points; None for the file's run_cap, or all points of a grid.
        seed: Of the points that are drawn.
        at_once: How many points the launcher gets at a time.
    """

    sweep: SweepFile
    fixed: Sequence[str]
    points: int | None = None
    seed: int = 1
    at_once: int = 1

    def number_of_points(self) -> int:
        """The number of points with a result at which the sweep ends.

        Raises:
            UserError: Neither the file nor the user names a number.
        """
        wanted = self.points or self.sweep.run_cap
        if self.sweep.method == "grid":
            size = len(grid(self.sweep))
            return min(wanted or size, size)
        if wanted is None:
            raise UserError(
                f"method={self.sweep.method} draws points without end; set run_cap in the sweep "
                "file, or pass trials=20"
            )
        return wanted

    def maximizes(self) -> bool:
        """Whether large values of the objective are good."""
        return self.sweep.metric.goal == "maximize"

    def overrides(self, params: Mapping[str, Any]) -> list[str]:
        """The overrides of one point, in Hydra's notation."""
        varied = [f"{key}={override_text(params[key])}" for key in self.sweep.parameters]
        return [*self.fixed, *map(written_out, varied)]


def run_sweep(job: SweepJob, folder: Path, launch: Launch, console: Console) -> optuna.Study:
    """Runs the points of a sweep that its folder lacks.

    Points that were interrupted run again in their folders. Points that failed in an earlier
    command are tried again as new points; one that fails now is noted, and the others still run.
    Each point is drawn with a seed of its own, so a sweep that was interrupted draws the same
    points as one that was not, if they run one at a time.

    Args:
        job: The sweep.
        folder: The folder of the sweep.
        launch: Runs jobs, given the overrides of each and the number of the first.
        console: The terminal.

    Returns:
        Optuna's study with all points.

    Raises:
        UserError: The folder holds another sweep, or the number of points is not known.
    """
    wanted = job.number_of_points()
    study = _open_study(job, folder)
    _enqueue(study, job)
    interrupted = study.get_trials(states=(TrialState.RUNNING,))
    failures = _run(study, job, interrupted, folder, launch, console)
    space = {key: distribution(value) for key, value in job.sweep.parameters.items()}
    while (left := wanted - failures - len(finished_trials(study))) > 0:
        drawn = [_ask(study, job, space) for _ in range(min(left, job.at_once))]
        failures += _run(study, job, drawn, folder, launch, console)
    return study


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The points with a result, in the order of their numbers."""
    return study.get_trials(states=(TrialState.COMPLETE,))


def failed_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The points without a result that no later point repeats, in the order of their numbers."""
    trials = study.get_trials()
    return [
        trial
        for trial in trials
        if trial.state is TrialState.FAIL
        and str(trial.number) in errors(study)
        and not any(later.params == trial.params for later in trials[trial.number + 1 :])
    ]


def errors(study: optuna.Study) -> dict[str, str]:
    """Why points failed, by their numbers."""
    return study.user_attrs.get("errors", {})


def grid(sweep: SweepFile) -> list[dict[str, Any]]:
    """All points of a grid; the last parameter changes fastest.

    Args:
        sweep: A sweep whose parameters are lists of values.

    Returns:
        The values of each point by key, as Optuna stores them.
    """
    values = [map(_choice, parameter.grid() or []) for parameter in sweep.parameters.values()]
    return [dict(zip(sweep.parameters, point, strict=True)) for point in itertools.product(*values)]


def distribution(parameter: Parameter) -> BaseDistribution:
    """The distribution of Optuna for a parameter of a sweep file.

    Args:
        parameter: The parameter.

    Returns:
        The distribution.

    >>> distribution(Parameter(min=1, max=4))
    IntDistribution(high=4, log=False, low=1, step=1)
    >>> distribution(Parameter(distribution="log_uniform_values", min=0.001, max=0.1))
    FloatDistribution(high=0.1, log=True, low=0.001, step=None)
    """
    if parameter.values:
        return CategoricalDistribution([_choice(value) for value in parameter.values])
    low, high = parameter.bounds()
    if parameter.distribution == "int_uniform":
        return IntDistribution(int(low), int(high))
    log = parameter.distribution == "log_uniform_values"
    return FloatDistribution(low, high, log=log, step=parameter.q)


def override_text(value: Any) -> str:
    """A value as it stands in an override; texts as they are, as W&B's agent writes them.

    Args:
        value: A value of a sweep file.

    Returns:
        The text.

    >>> [override_text(value) for value in (True, 1e-06, None, "goal", [1, 2])]
    ['true', '1e-06', 'null', 'goal', '[1, 2]']
    """
    return value if isinstance(value, str) else json.dumps(value)


def _choice(value: Any) -> bool | int | float | str:
    """A value as Optuna stores it: numbers as they are, all else as the text of an override."""
    return value if isinstance(value, bool | int | float) else override_text(value)


def _open_study(job: SweepJob, folder: Path) -> optuna.Study:
    """The study in the folder of a sweep; a new one if there is none."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _JOURNAL
    _drop_unfinished_line(file)
    goal = job.sweep.metric.goal
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(file))),
        study_name="sweep",
        direction=goal,
        load_if_exists=True,
    )
    identity = {
        "method": job.sweep.method,
        "metric": job.sweep.metric.name,
        "goal": goal,
        "seed": job.seed,
        "overrides": sorted(job.fixed),
        **{key: value.model_dump() for key, value in job.sweep.parameters.items()},
    }
    known = study.user_attrs.get("sweep")
    if known is None:
        study.set_user_attr("sweep", identity)
    elif known != identity:
        key = next(key for key in [*identity, *known] if known.get(key) != identity.get(key))
        raise UserError(
            f"{folder} holds a sweep with other settings ({key} is {known.get(key)} there, "
            f"{identity.get(key)} here); choose another output_dir"
        )
    return study


def _drop_unfinished_line(file: Path) -> None:
    """Removes what a kill left of the last line, which Optuna would refuse to read."""
    if file.is_file() and not (content := read_bytes(file)).endswith(b"\n"):
        write_bytes(file, content[: content.rfind(b"\n") + 1])


def _enqueue(study: optuna.Study, job: SweepJob) -> None:
    """Puts the points into the queue that are known from the start: a grid, failed points."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        if trial.params.keys() != job.sweep.parameters.keys():  # killed while it was drawn
            study.tell(trial.number, state=TrialState.FAIL)
    trials = study.get_trials()
    failed = [trial.params for trial in trials if str(trial.number) in errors(study)]
    # The parameters of a point in the queue are not drawn yet.
    present = [
        trial.system_attrs.get("fixed_params", trial.params)
        for trial in trials
        if trial.state is not TrialState.FAIL
    ]
    for params in grid(job.sweep) if job.sweep.method == "grid" else failed:
        if params not in present:
            study.enqueue_trial(params)
            present.append(params)


def _ask(
    study: optuna.Study, job: SweepJob, space: dict[str, BaseDistribution]
) -> FrozenTrial | optuna.Trial:
    """Draws the next point, with a seed that depends on its number alone."""
    words = np.random.SeedSequence((job.seed, len(study.get_trials(deepcopy=False))))
    seed = int(words.generate_state(1)[0])
    draws = optuna.samplers.TPESampler if job.sweep.method == "bayes" else None
    study.sampler = draws(seed=seed) if draws else optuna.samplers.RandomSampler(seed=seed)
    return study.ask(space)


def _run(
    study: optuna.Study,
    job: SweepJob,
    trials: Sequence[FrozenTrial | optuna.Trial],
    folder: Path,
    launch: Launch,
    console: Console,
) -> int:
    """Runs points and stores their results; returns how many failed."""
    failures = 0
    # A launcher numbers its jobs one after the other.
    for _, numbered in itertools.groupby(enumerate(trials), lambda item: item[1].number - item[0]):
        group = [trial for _, trial in numbered]
        overrides = [job.overrides(trial.params) for trial in group]
        returns: Sequence[JobReturn | Exception]
        try:
            returns = launch(overrides, group[0].number)
        except Exception as error:  # a process of the launcher died
            returns = [error] * len(group)
        for trial, result in zip(group, returns, strict=True):
            place = folder / str(trial.number)
            failures += not _note(study, job.sweep.metric.name, trial, place, result, console)
    return failures


def _note(
    study: optuna.Study,
    metric: str,
    trial: FrozenTrial | optuna.Trial,
    place: Path,
    result: JobReturn | Exception,
    console: Console,
) -> bool:
    """Stores the result of a point; returns whether it has one."""
    try:
        if isinstance(result, Exception):
            raise result
        _ = result.return_value  # raises the error of the job
        value = _objective(place, metric)
    except Exception as error:
        reason = reason_of(error)
        if not is_user_error(error):
            traceback.print_exception(error)
            reason = ": ".join(dict.fromkeys([type(error).__name__, reason]))
        study.set_user_attr("errors", {**errors(study), str(trial.number): reason})
        study.tell(trial.number, state=TrialState.FAIL)
        console.print(f"point {trial.number} failed: {reason}", soft_wrap=True)
        return False
    study.tell(trial.number, value)
    best = f"best {cell(study.best_value)}, point {study.best_trial.number}"
    console.print(f"point {trial.number}: {metric} {cell(value)} ({best})", soft_wrap=True)
    return True


def _objective(place: Path, metric: str) -> float:
    """The objective in the metrics.json of a job."""
    metrics = read_metrics(place / "metrics.json")
    if metric not in metrics:
        raise UserError(f"{place / 'metrics.json'} has no {metric}, the metric of the sweep file")
    return metrics[metric]
