"""Sweeps by Optuna with a launcher that computes the objective from the overrides."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from rich.console import Console

from ivqa.errors import UserError
from ivqa.report.tables import cell
from ivqa.runs import sweeps
from ivqa.runs.optuna_sweep import SweepJob, failed_trials, finished_trials, run_sweep
from ivqa.runs.sweep_files import SweepFile

GRID = {
    "program": "evaluate.py",
    "method": "grid",
    "metric": {"name": "loss"},
    "parameters": {"a": {"values": [1, 2, 3]}, "b": {"values": ["x", None]}},
}
DRAWN = {
    **GRID,
    "method": "bayes",
    "metric": {"name": "loss", "goal": "maximize"},
    "parameters": {
        "lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1.0},
        "n": {"min": 1, "max": 9},
        "kind": {"values": ["x", "y"]},
    },
}


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


class Jobs:
    """A launcher: writes metrics.json of each job, and notes what it ran.

    Args:
        folder: The folder of the sweep.
        objective: The objective, given the overrides of a job as a dictionary.
        before: Called with the number of a job before it runs.
    """

    def __init__(
        self,
        folder: Path,
        objective: Callable[[dict[str, str]], Any] = lambda point: 1.0,
        before: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.folder, self.objective, self.before = folder, objective, before
        self.ran: list[tuple[int, list[str]]] = []
        self.sizes: list[int] = []

    def __call__(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        self.sizes.append(len(overrides))
        return [self._run(first + at, list(items)) for at, items in enumerate(overrides)]

    def _run(self, number: int, overrides: list[str]) -> JobReturn:
        self.before(number)
        self.ran.append((number, overrides))
        done = JobReturn(overrides=overrides)
        try:
            value = self.objective(dict(item.split("=") for item in overrides))
            folder = self.folder / str(number)
            folder.mkdir(exist_ok=True)
            (folder / "metrics.json").write_text(json.dumps({"loss": value}))
            done.status = JobStatus.COMPLETED
        except Exception as error:
            done.status, done.return_value = JobStatus.FAILED, error
        return done


def _job(content: dict[str, Any], **settings: Any) -> SweepJob:
    return SweepJob(SweepFile.model_validate(content), ["fixed=0"], **settings)


def _run(job: SweepJob, jobs: Jobs) -> Any:
    return run_sweep(job, jobs.folder, jobs, Console(quiet=True))


def test_a_grid_has_all_points_in_order(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, lambda point: float(point["a"]) - (point["b"] == "null"))
    study = _run(_job(GRID, at_once=4), jobs)
    assert jobs.ran == [
        (0, ["fixed=0", "a=1", "b=x"]),
        (1, ["fixed=0", "a=1", "b=null"]),
        (2, ["fixed=0", "a=2", "b=x"]),
        (3, ["fixed=0", "a=2", "b=null"]),
        (4, ["fixed=0", "a=3", "b=x"]),
        (5, ["fixed=0", "a=3", "b=null"]),
    ]
    assert jobs.sizes == [4, 2]
    assert study.best_trial.number == 1
    assert study.best_value == 0.0


def test_draws_stay_within_their_bounds_and_find_the_optimum(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, lambda point: (point["kind"] == "y") - abs(int(point["n"]) - 7) / 10)
    study = _run(_job(DRAWN, points=30), jobs)
    points = [dict(item.split("=") for item in overrides) for _, overrides in jobs.ran]
    assert all(1e-4 <= float(point["lr"]) <= 1 for point in points)
    assert {point["kind"] for point in points} == {"x", "y"}
    assert all(1 <= int(point["n"]) <= 9 for point in points)
    # Of 18 combinations of n and kind; later draws are better than the first, which are random.
    assert study.best_value >= 0.9
    values = [trial.value for trial in finished_trials(study)]
    assert sum(values[15:]) > sum(values[:15])


def test_a_logarithmic_interval_is_drawn_by_magnitudes(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    _run(_job({**DRAWN, "method": "random"}, points=40), jobs)
    rates = [float(overrides[1].split("=")[1]) for _, overrides in jobs.ran]
    assert 10 <= sum(rate < 0.01 for rate in rates) <= 30  # half of the magnitudes


@pytest.mark.parametrize("content", [GRID, DRAWN], ids=["grid", "bayes"])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_an_interrupted_sweep_ends_like_one_that_was_not(
    content: dict[str, Any], at: int, tmp_path: Path
) -> None:
    def objective(point: dict[str, str]) -> float:
        return len("".join(point.values()))

    def kill(number: int) -> None:
        if number == at and not killed:
            killed.append(number)
            raise Killed

    whole = Jobs(tmp_path / "whole", objective)
    _run(_job(content, points=6), whole)
    killed: list[int] = []
    cut = Jobs(tmp_path / "cut", objective, before=kill)
    with pytest.raises(Killed):
        _run(_job(content, points=6), cut)
    # A kill may also cut off the last line of the journal.
    with (cut.folder / "study.journal").open("ab") as file:
        file.write(b'{"op_code":5,"worker')
    study = _run(_job(content, points=6), cut)
    assert cut.ran == whole.ran
    assert len(finished_trials(study)) == 6
    # It is complete: nothing runs again, and more points can be asked for.
    _run(_job(content, points=6), cut)
    assert len(cut.ran) == 6
    if content is DRAWN:
        _run(_job(content, points=8), cut)
        assert [number for number, _ in cut.ran] == list(range(8))


def test_a_failed_point_is_noted_and_tried_again_by_the_next_command(tmp_path: Path) -> None:
    broken = {"2"}

    def objective(point: dict[str, str]) -> float:
        if point["a"] in broken:
            raise UserError("the disk\nis full")
        return float(point["a"])

    jobs = Jobs(tmp_path, objective)
    study = _run(_job(GRID), jobs)
    assert [number for number, _ in jobs.ran] == [0, 1, 2, 3, 4, 5]
    assert [trial.number for trial in failed_trials(study)] == [2, 3]
    assert study.user_attrs["errors"] == {"2": "the disk is full", "3": "the disk is full"}
    broken.clear()
    study = _run(_job(GRID), jobs)
    assert [number for number, _ in jobs.ran] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [overrides for _, overrides in jobs.ran[6:]] == [jobs.ran[2][1], jobs.ran[3][1]]
    assert len(finished_trials(study)) == 6
    assert failed_trials(study) == []


def test_points_that_are_drawn_fail_without_end_neither(tmp_path: Path) -> None:
    def objective(point: dict[str, str]) -> float:
        raise ZeroDivisionError("by zero")

    jobs = Jobs(tmp_path, objective)
    study = _run(_job(DRAWN, points=3), jobs)
    assert len(jobs.ran) == 3
    assert study.user_attrs["errors"]["0"] == "ZeroDivisionError: by zero"


def test_a_point_without_an_objective_has_failed(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, lambda point: None)
    study = _run(_job({**GRID, "parameters": {"a": {"value": 1}}}), jobs)
    assert "loss must be a number" in study.user_attrs["errors"]["0"]
    other = {**GRID, "parameters": {"a": {"value": 1}}, "metric": {"name": "gain"}}
    study = _run(_job(other), Jobs(tmp_path / "other"))
    assert "has no gain, the metric of the sweep file" in study.user_attrs["errors"]["0"]


def test_a_launcher_that_dies_fails_its_points_alone(tmp_path: Path) -> None:
    def die(number: int) -> None:
        if number == 1:
            raise RuntimeError("job 1 was killed")

    jobs = Jobs(tmp_path, before=die)
    study = _run(_job(GRID), jobs)
    assert study.user_attrs["errors"] == {"1": "RuntimeError: job 1 was killed"}
    assert len(finished_trials(study)) == 5


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    _run(_job(GRID), Jobs(tmp_path))
    job = SweepJob(SweepFile.model_validate(GRID), ["fixed=1"])
    with pytest.raises(UserError, match=r"overrides is \['fixed=0'\] there, \['fixed=1'\] here"):
        _run(job, Jobs(tmp_path))
    with pytest.raises(UserError, match="method is grid there, random here"):
        _run(_job({**GRID, "method": "random"}, points=2), Jobs(tmp_path))


def test_draws_need_a_number_of_points(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set run_cap in the sweep file, or pass trials=20"):
        _run(_job(DRAWN), Jobs(tmp_path))
    jobs = Jobs(tmp_path)
    _run(_job({**DRAWN, "run_cap": 2}), jobs)
    assert len(jobs.ran) == 2


@pytest.mark.parametrize(("goal", "order"), [("minimize", "201"), ("maximize", "102")])
def test_the_objective_keeps_its_sign_in_study_table_and_best_point(
    goal: str, order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metric, values = {"name": "loss", "goal": goal}, {"1": -1.0, "2": 2.0, "3": -3.0}
    parameters = {"a": {"values": [1, 2, 3]}}
    job = _job({**GRID, "metric": metric, "parameters": parameters})
    jobs = Jobs(tmp_path, lambda point: values[point["a"]])
    study = _run(job, jobs)
    assert [trial.value for trial in finished_trials(study)] == [-1.0, 2.0, -3.0]
    assert study.best_trial.number == int(order[0])
    sweeps._show(study, job, tmp_path, Console())
    with (tmp_path / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert "".join(row["point"] for row in rows) == order  # best first
    assert [float(row["loss"]) for row in rows] == [[-1.0, 2.0, -3.0][int(at)] for at in order]
    assert f"best: point {order[0]}, loss {cell(float(rows[0]['loss']))}" in capsys.readouterr().out
