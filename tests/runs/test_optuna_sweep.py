"""Sweeps by Optuna with a launcher that computes the objective from the overrides."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from ivqa.errors import UserError
from ivqa.report.tables import cell
from ivqa.sweeps import sweeps
from ivqa.sweeps.optuna_sweep import (
    SweepJob,
    distribution,
    errors,
    failed_trials,
    finished_trials,
    grid,
    run_sweep,
)
from ivqa.sweeps.sweep_files import Parameter, SweepFile
from ivqa.sweeps.sweeps import sweep_in, unique_ends

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


def test_headings_are_the_shortest_ends_that_tell_keys_apart() -> None:
    assert unique_ends(["reward", "a.b.lr", "a.size", "c.size", "x.c.size", "lr.size", "size"]) == {
        "reward": "reward",
        "a.b.lr": "lr",  # a part of another key that is not its end
        "a.size": "a.size",
        "c.size": "c.size",  # every end of it is an end of x.c.size too
        "x.c.size": "x.c.size",
        "lr.size": "lr.size",
        "size": "size",
    }


@pytest.mark.parametrize(
    ("content", "points", "number"),
    [
        (GRID, None, 6),
        (GRID, 4, 4),
        (GRID, 99, 6),
        ({**GRID, "run_cap": 5}, None, 5),
        ({**GRID, "run_cap": 5}, 2, 2),
        ({**DRAWN, "run_cap": 5}, None, 5),
        ({**DRAWN, "run_cap": 5}, 7, 7),
    ],
)
def test_the_number_of_points_is_that_of_the_user_or_the_file(
    content: dict[str, Any], points: int | None, number: int
) -> None:
    assert _job(content, points=points).number_of_points() == number


def test_values_are_stored_as_numbers_or_as_texts_of_overrides() -> None:
    parameters = {"a": {"values": [True, 2, 0.5, "x", None, [1, 2]]}, "n": {"min": 3, "max": 4}}
    points = grid(SweepFile.model_validate({**GRID, "parameters": parameters}))
    values = [True, 2, 0.5, "x", "null", "[1, 2]"]
    assert points == [{"a": value, "n": n} for value in values for n in (3, 4)]
    choices = distribution(Parameter.model_validate(parameters["a"]))
    assert isinstance(choices, optuna.distributions.CategoricalDistribution)
    assert list(choices.choices) == values
    steps = distribution(Parameter(distribution="q_uniform", min=0, max=1, q=0.25))
    assert steps == optuna.distributions.FloatDistribution(0, 1, step=0.25)
    plain = distribution(Parameter(distribution="uniform", min=0, max=1))
    assert plain == optuna.distributions.FloatDistribution(0, 1)


def test_only_bayes_learns_from_the_objective(tmp_path: Path) -> None:
    def ran(method: str, sign: int, seed: int = 1) -> list[tuple[int, list[str]]]:
        jobs = Jobs(tmp_path / f"{method} {sign} {seed}", lambda point: sign * int(point["n"]))
        _run(_job({**DRAWN, "method": method}, points=14, seed=seed), jobs)
        return jobs.ran

    assert ran("random", 1) == ran("random", -1) != ran("random", 1, 2)
    assert ran("bayes", 1) != ran("bayes", -1)


def test_a_drawn_point_that_failed_is_tried_again_first(tmp_path: Path) -> None:
    def objective(point: dict[str, str]) -> float:
        if len(jobs.ran) == 2:
            raise UserError("full")
        return 1.0

    jobs = Jobs(tmp_path, objective)
    study = _run(_job(DRAWN, points=3), jobs)
    assert errors(study) == {"1": "full"}
    assert len(finished_trials(study)) == 2
    study = _run(_job(DRAWN, points=4), jobs)
    assert [number for number, _ in jobs.ran] == [0, 1, 2, 3, 4]
    assert jobs.ran[3][1] == jobs.ran[1][1]
    assert len(finished_trials(study)) == 4
    assert failed_trials(study) == []


def test_a_drawn_point_that_failed_and_was_drawn_again_is_not_repeated(tmp_path: Path) -> None:
    content = {**DRAWN, "method": "random", "parameters": {"kind": {"values": ["x", "y"]}}}

    def objective(point: dict[str, str]) -> float:
        if len(jobs.ran) == 1:
            raise UserError("full")
        return 1.0

    jobs = Jobs(tmp_path, objective)
    _run(_job(content, points=5), jobs)
    kinds = [overrides[-1] for _, overrides in jobs.ran]
    assert kinds[0] in kinds[1:]
    study = _run(_job(content, points=5), jobs)
    assert "fixed_params" not in study.trials[5].system_attrs  # a new draw


def test_a_last_point_that_failed_is_done_once_its_repetition_is(tmp_path: Path) -> None:
    content = {**GRID, "parameters": {"a": {"value": 1}}}
    fails = [True]

    def objective(point: dict[str, str]) -> float:
        if fails:
            raise ValueError
        return 2.0

    jobs = Jobs(tmp_path, objective)
    study = _run(_job(content), jobs)
    assert [trial.number for trial in failed_trials(study)] == [0]
    assert errors(study)["0"].startswith("ValueError")  # although it has no message
    fails.clear()
    study = _run(_job(content), jobs)
    assert failed_trials(study) == []
    assert [trial.number for trial in finished_trials(study)] == [1]


def test_interrupted_points_keep_their_numbers(tmp_path: Path) -> None:
    def kill(number: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        _run(_job(GRID, at_once=3), Jobs(tmp_path, before=kill))
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    )
    optuna.load_study(study_name="sweep", storage=storage).tell(1, 5.0)
    jobs = Jobs(tmp_path)
    study = _run(_job(GRID, at_once=3), jobs)
    assert jobs.sizes == [1, 1, 3]
    assert [number for number, _ in jobs.ran] == [0, 2, 3, 4, 5]
    assert [trial.value for trial in finished_trials(study)] == [1, 5, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "settings", "key"),
    [
        ({"metric": {"name": "gain"}}, {}, "metric"),
        ({"metric": {"name": "loss", "goal": "maximize"}}, {}, "goal"),
        ({"parameters": {**GRID["parameters"], "a": {"values": [1, 2]}}}, {}, "a"),  # type: ignore[dict-item]
        ({"parameters": {"a": GRID["parameters"]["a"]}}, {}, "b"),  # type: ignore[index]
        ({}, {"seed": 2}, "seed"),
    ],
)
def test_what_differs_from_the_sweep_of_the_folder_is_named(
    changes: dict[str, Any], settings: dict[str, Any], key: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "folder"
    job = SweepJob(SweepFile.model_validate(GRID), ["x=0", "y=0"])
    _run(job, Jobs(folder))
    _run(SweepJob(SweepFile.model_validate(GRID), ["y=0", "x=0"]), Jobs(folder))  # in any order
    other = SweepJob(SweepFile.model_validate({**GRID, **changes}), ["x=0", "y=0"], **settings)
    with pytest.raises(UserError, match=rf"\({key} is"):
        _run(other, Jobs(folder))


def test_each_point_says_its_result_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def objective(point: dict[str, str]) -> float:
        if point["a"] == "2":
            raise UserError("the disk\nis full")
        if point["a"] == "3":
            raise ZeroDivisionError("by zero, which is a mistake of the program")
        if point["a"] == "4":
            raise AssertionError
        return 0.25

    said = io.StringIO()
    job, jobs = (
        _job({**GRID, "parameters": {"a": {"values": [1, 2, 3, 4]}}}),
        Jobs(tmp_path, objective),
    )
    run_sweep(job, tmp_path, jobs, Console(file=said, width=20))
    lines = said.getvalue().splitlines()
    assert len(lines) == 4
    assert re.findall(r"[\d.]+", lines[0]) == ["0", "0.25", "0.25", "0"]  # the best one is its own
    assert lines[1] == "point 1 failed: the disk is full"
    assert lines[2].startswith("point 2 failed: ZeroDivisionError: by zero")
    assert lines[3] == "point 3 failed: AssertionError"  # without a message
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "by zero" in printed
    assert "the disk" not in printed  # a mistake of the user has no traceback


SHOWN = {
    **GRID,
    "metric": {"name": "loss", "goal": "maximize"},
    "parameters": {"a.lr": {"values": [1, 2, 3]}, "model@vqa": {"values": ["x", "y"]}},
}


def _sweep_in(
    job: SweepJob, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, refused: str = ""
) -> tuple[list[list[str]], str]:
    """Runs a sweep; returns the overrides whose configurations were checked, and what it said."""
    composed: list[list[str]] = []

    def compose(overrides: Sequence[str]) -> DictConfig:
        composed.append(list(overrides))
        cfg = OmegaConf.create({"hydra": {}, "overrides": list(overrides)})
        OmegaConf.set_struct(cfg, True)
        return cfg

    def check(cfg: DictConfig) -> None:
        assert list(cfg) == ["overrides"]
        assert not jobs.ran
        if refused in cfg.overrides:
            raise UserError(f"{refused} is wrong")

    said = io.StringIO()
    monkeypatch.setattr(sweeps, "check_config", check)
    sweep_in(jobs.folder, job, compose, jobs, Console(file=said, width=30))
    return composed, said.getvalue()


def test_a_sweep_ends_with_table_plot_and_the_command_of_the_best_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def objective(point: dict[str, str]) -> float:
        if point["a.lr"] == "2":
            raise UserError("there is no number in its file")
        return float(point["a.lr"]) + (point["model@vqa"] == "y") / 8

    plots: list[Any] = []
    write = sweeps.write_sweep_plot
    monkeypatch.setattr(
        sweeps,
        "write_sweep_plot",
        lambda *given, **named: (plots.append((given, named)), write(*given, **named)),
    )
    _, said = _sweep_in(_job(SHOWN), Jobs(tmp_path, objective), monkeypatch)
    with (tmp_path / "table.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows == [
        ["point", "loss", "lr", "model@vqa"],
        ["5", "3.125", "3", "y"],
        ["4", "3.0", "3", "x"],
        ["1", "1.125", "1", "y"],
        ["0", "1.0", "1", "x"],
        ["2", "failed", "2", "x"],
        ["3", "failed", "2", "y"],
    ]
    assert "4 of 6 points" in (tmp_path / "table.html").read_text()
    (((file, points, values), named),) = plots
    assert (file, named) == (tmp_path / "sweep.png", {"metric": "loss", "best": 3})
    assert points == [{"lr": lr, "model@vqa": name} for lr in (1, 3) for name in "xy"]
    assert values == [1.0, 1.125, 3.0, 3.125]
    lines = said.splitlines()
    assert "4 of 6 points" in " ".join(said.split())
    # When it happens, and at the end.
    assert lines.count("point 2 failed: there is no number in its file") == 2
    assert lines[0].startswith(f"sweep: {tmp_path} (")
    assert lines[0].endswith(")")
    assert "best: point 5, loss 3.125" in lines
    assert "  python evaluate.py fixed=0 a.lr=3 vqa=y" in lines
    for name in (tmp_path, tmp_path / "table.html", tmp_path / "sweep.png"):
        assert [line for line in lines if str(name) in line]


def test_every_value_is_checked_before_a_point_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {
        "a": {"values": [1, 2, 3]},
        "n": {"min": 1, "max": 9},
        "x": {"distribution": "uniform", "min": 0, "max": 1},
    }
    content = {**DRAWN, "parameters": parameters}
    checked = [
        ["fixed=0", "a=1", "n=1", "x=0.0"],
        ["fixed=0", "a=2", "n=9", "x=1.0"],
        ["fixed=0", "a=3", "n=1", "x=0.0"],
    ]
    jobs = Jobs(tmp_path / "one")
    composed, _ = _sweep_in(_job(content, points=2), jobs, monkeypatch)
    assert composed == checked
    assert len(jobs.ran) == 2
    for refused in ("a=3", "n=9", "x=1.0"):
        jobs = Jobs(tmp_path / "two")
        with pytest.raises(UserError, match=f"{refused} is wrong"):
            _sweep_in(_job(content, points=2), jobs, monkeypatch, refused)
        assert not jobs.ran
    with pytest.raises(UserError, match="set run_cap"):
        _sweep_in(_job(content), jobs, monkeypatch)
    assert not (tmp_path / "two").exists()


def test_a_sweep_without_a_result_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def objective(point: dict[str, str]) -> float:
        raise UserError(f"no disk for {point['a.lr']}")

    with pytest.raises(UserError, match=f"{tmp_path} has a result; the first: no disk for 1"):
        _sweep_in(_job(SHOWN), Jobs(tmp_path, objective), monkeypatch)
    assert not (tmp_path / "table.csv").exists()
