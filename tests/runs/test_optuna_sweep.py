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
from PIL import Image
from rich.console import Console

from ivqa.errors import UserError
from ivqa.report.plots import write_sweep_plot
from ivqa.report.tables import cell
from ivqa.sweeps import optuna_sweep
from ivqa.sweeps.optuna_sweep import OptunaSweep, failed_trials, finished_trials, unique_ends
from ivqa.sweeps.sweep_files import SweepFile

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


@pytest.fixture(autouse=True)
def _without_configurations_and_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_sweep, "check_config", lambda cfg: None)
    monkeypatch.setattr(optuna_sweep, "write_sweep_plot", lambda *given: None)


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


def _run(content: dict[str, Any], jobs: Jobs, **settings: Any) -> Any:
    return _sweep(content, jobs, **settings).run()


def _sweep(content: dict[str, Any], jobs: Jobs, **settings: Any) -> OptunaSweep:
    given = {
        "fixed": ["fixed=0"], "console": Console(quiet=True),
        "compose": lambda overrides: OmegaConf.create({"hydra": {}}),
    } | settings  # fmt: skip
    sweep = SweepFile.model_validate(content)
    return OptunaSweep(sweep=sweep, folder=jobs.folder, launch=jobs, **given)  # type: ignore[arg-type]


def _errors(study: optuna.Study) -> dict[int, str]:
    """The reasons of the points that failed, by their numbers."""
    return {t.number: t.user_attrs["error"] for t in study.trials if "error" in t.user_attrs}


def test_a_grid_has_all_points_in_order(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, lambda point: float(point["a"]) - (point["b"] == "null"))
    study = _run(GRID, jobs, at_once=4)
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
    study = _run(DRAWN, jobs, points=30)
    points = [dict(item.split("=") for item in overrides) for _, overrides in jobs.ran]
    assert all(1e-4 <= float(point["lr"]) <= 1 for point in points)
    assert {point["kind"] for point in points} == {"x", "y"}
    assert all(1 <= int(point["n"]) <= 9 for point in points)
    # Of 18 combinations of n and kind; later draws are better than the first, which are random.
    assert study.best_value >= 0.9
    values = [trial.values[0] for trial in finished_trials(study)]
    assert sum(values[15:]) > sum(values[:15])


def test_a_logarithmic_interval_is_drawn_by_magnitudes(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    _run({**DRAWN, "method": "random"}, jobs, points=40)
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
    _run(content, whole, points=6)
    killed: list[int] = []
    cut = Jobs(tmp_path / "cut", objective, before=kill)
    with pytest.raises(Killed):
        _run(content, cut, points=6)
    # A kill may also cut off the last line of the journal.
    with (cut.folder / "study.journal").open("ab") as file:
        file.write(b'{"op_code":5,"worker')
    study = _run(content, cut, points=6)
    points = [[overrides for _, overrides in jobs.ran] for jobs in (cut, whole)]
    if content is GRID:  # which ends with the interrupted point
        points = list(map(sorted, points))
    assert points[0] == points[1]
    assert len(finished_trials(study)) == 6
    # It is complete: nothing runs again, and more points can be asked for.
    _run(content, cut, points=6)
    assert len(cut.ran) == 6
    if content is DRAWN:
        _run(content, cut, points=8)
        assert [number for number, _ in cut.ran] == [n for n in range(9) if n != at]


def test_a_failed_point_is_noted_and_tried_again_by_the_next_command(tmp_path: Path) -> None:
    broken = {"2"}

    def objective(point: dict[str, str]) -> float:
        if point["a"] in broken:
            raise UserError("the disk\nis full")
        return float(point["a"])

    jobs = Jobs(tmp_path, objective)
    study = _run(GRID, jobs)
    assert [number for number, _ in jobs.ran] == [0, 1, 2, 3, 4, 5]
    assert [trial.number for trial in failed_trials(study)] == [2, 3]
    assert _errors(study) == {2: "the disk is full", 3: "the disk is full"}
    broken.clear()
    study = _run(GRID, jobs)
    assert [number for number, _ in jobs.ran] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [overrides for _, overrides in jobs.ran[6:]] == [jobs.ran[2][1], jobs.ran[3][1]]
    assert len(finished_trials(study)) == 6
    assert failed_trials(study) == []


def test_points_that_are_drawn_fail_without_end_neither(tmp_path: Path) -> None:
    def objective(point: dict[str, str]) -> float:
        raise ZeroDivisionError("by zero")

    jobs = Jobs(tmp_path, objective)
    with pytest.raises(UserError, match="the first: ZeroDivisionError: by zero"):
        _run(DRAWN, jobs, points=3)
    assert len(jobs.ran) == 3


def test_a_point_without_an_objective_has_failed(tmp_path: Path) -> None:
    one = {**GRID, "parameters": {"a": {"value": 1}}}
    with pytest.raises(UserError, match="loss must be a number"):
        _run(one, Jobs(tmp_path, lambda point: None))
    with pytest.raises(UserError, match="has no gain, the metric of the sweep file"):
        _run({**one, "metric": {"name": "gain"}}, Jobs(tmp_path / "other"))


def test_a_launcher_that_dies_fails_its_points_alone(tmp_path: Path) -> None:
    def die(number: int) -> None:
        if number == 1:
            raise RuntimeError("job 1 was killed")

    jobs = Jobs(tmp_path, before=die)
    study = _run(GRID, jobs)
    assert _errors(study) == {1: "RuntimeError: job 1 was killed"}
    assert len(finished_trials(study)) == 5


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    _run(GRID, Jobs(tmp_path))
    with pytest.raises(UserError, match=r"overrides is \['fixed=0'\] there, \['fixed=1'\] here"):
        _run(GRID, Jobs(tmp_path), fixed=["fixed=1"])
    with pytest.raises(UserError, match="method is grid there, random here"):
        _run({**GRID, "method": "random"}, Jobs(tmp_path), points=2)


def test_draws_need_a_number_of_points(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set run_cap in the sweep file, or pass trials=20"):
        _run(DRAWN, Jobs(tmp_path))
    jobs = Jobs(tmp_path)
    _run({**DRAWN, "run_cap": 2}, jobs)
    assert len(jobs.ran) == 2


@pytest.mark.parametrize(("goal", "order"), [("minimize", "201"), ("maximize", "102")])
def test_the_objective_keeps_its_sign_in_study_table_and_best_point(
    goal: str, order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metric, values = {"name": "loss", "goal": goal}, {"1": -1.0, "2": 2.0, "3": -3.0}
    parameters = {"a": {"values": [1, 2, 3]}}
    jobs = Jobs(tmp_path, lambda point: values[point["a"]])
    content = {**GRID, "metric": metric, "parameters": parameters}
    study = _run(content, jobs, console=Console())
    assert [trial.value for trial in finished_trials(study)] == [-1.0, 2.0, -3.0]
    assert study.best_trial.number == int(order[0])
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
    content: dict[str, Any], points: int | None, number: int, tmp_path: Path
) -> None:
    assert _sweep(content, Jobs(tmp_path), points=points).number_of_points() == number


def test_values_are_stored_as_numbers_or_as_texts_of_overrides() -> None:
    parameters = {"a": {"values": [True, 2, 0.5, "x", None, [1, 2]]}, "n": {"min": 3, "max": 4}}
    sweep = SweepFile.model_validate({**GRID, "parameters": parameters})
    values = [True, 2, 0.5, "x", "null", "[1, 2]"]
    assert sweep.grid() == [{"a": value, "n": n} for value in values for n in (3, 4)]
    choices = sweep.parameters["a"]
    assert isinstance(choices, optuna.distributions.CategoricalDistribution)
    assert list(choices.choices) == values


def test_only_bayes_learns_from_the_objective(tmp_path: Path) -> None:
    def ran(method: str, sign: int, seed: int = 1) -> list[tuple[int, list[str]]]:
        jobs = Jobs(tmp_path / f"{method} {sign} {seed}", lambda point: sign * int(point["n"]))
        _run({**DRAWN, "method": method}, jobs, points=14, seed=seed)
        return jobs.ran

    assert ran("random", 1) == ran("random", -1) != ran("random", 1, 2)
    assert ran("bayes", 1) != ran("bayes", -1)


def test_a_drawn_point_that_failed_is_tried_again_first(tmp_path: Path) -> None:
    def objective(point: dict[str, str]) -> float:
        if len(jobs.ran) == 2:
            raise UserError("full")
        return 1.0

    jobs = Jobs(tmp_path, objective)
    study = _run(DRAWN, jobs, points=3)
    assert _errors(study) == {1: "full"}
    assert len(finished_trials(study)) == 2
    study = _run(DRAWN, jobs, points=4)
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
    _run(content, jobs, points=5)
    kinds = [overrides[-1] for _, overrides in jobs.ran]
    assert kinds[0] in kinds[1:]
    study = _run(content, jobs, points=5)
    assert "fixed_params" not in study.trials[5].system_attrs  # a new draw


def test_a_last_point_that_failed_is_done_once_its_repetition_is(tmp_path: Path) -> None:
    content = {**GRID, "parameters": {"a": {"value": 1}}}
    fails = [True]

    def objective(point: dict[str, str]) -> float:
        if fails:
            raise ValueError
        return 2.0

    jobs = Jobs(tmp_path, objective)
    with pytest.raises(UserError, match="the first: ValueError"):  # although it has no message
        _run(content, jobs)
    fails.clear()
    study = _run(content, jobs)
    assert failed_trials(study) == []
    assert [trial.number for trial in finished_trials(study)] == [1]


def test_interrupted_points_run_again_as_new_ones(tmp_path: Path) -> None:
    def kill(number: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        _run(GRID, Jobs(tmp_path, before=kill), at_once=3)
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    )
    optuna.load_study(study_name="sweep", storage=storage).tell(1, 5.0)
    jobs = Jobs(tmp_path)
    study = _run(GRID, jobs, at_once=3)
    assert jobs.sizes == [3, 2]
    assert [number for number, _ in jobs.ran] == [3, 4, 5, 6, 7]
    assert sorted(items[1:] for _, items in jobs.ran) == [
        [f"a={a}", f"b={b}"] for a in (1, 2, 3) for b in ("null", "x") if (a, b) != (1, "null")
    ]
    assert [trial.value for trial in finished_trials(study)] == [5, 1, 1, 1, 1, 1]


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
    _run(GRID, Jobs(folder), fixed=["x=0", "y=0"])
    _run(GRID, Jobs(folder), fixed=["y=0", "x=0"])  # in any order
    with pytest.raises(UserError, match=rf"\({key} is"):
        _run({**GRID, **changes}, Jobs(folder), fixed=["x=0", "y=0"], **settings)


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
    content = {**GRID, "parameters": {"a": {"values": [1, 2, 3, 4]}}}
    _run(content, Jobs(tmp_path, objective), console=Console(file=said, width=20))
    lines = said.getvalue().splitlines()[1:5]
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


def test_a_sweep_ends_with_table_plot_and_the_command_of_the_best_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def objective(point: dict[str, str]) -> float:
        if point["a.lr"] == "2":
            raise UserError("there is no number in its file")
        return float(point["a.lr"]) + (point["model@vqa"] == "y") / 8

    monkeypatch.setattr(optuna_sweep, "write_sweep_plot", write_sweep_plot)
    text = io.StringIO()
    _run(SHOWN, Jobs(tmp_path, objective), console=Console(file=text, width=30))
    said = text.getvalue()
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
    assert Image.open(tmp_path / "sweep.png").width > 1000  # two parameters
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
    refused, composed = "", []

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

    monkeypatch.setattr(optuna_sweep, "check_config", check)
    jobs = Jobs(tmp_path / "one")
    _run(content, jobs, points=2, compose=compose)
    assert composed == checked
    assert len(jobs.ran) == 2
    for refused in ("a=3", "n=9", "x=1.0"):
        jobs = Jobs(tmp_path / "two")
        with pytest.raises(UserError, match=f"{refused} is wrong"):
            _run(content, jobs, points=2, compose=compose)
        assert not jobs.ran
    refused = ""
    with pytest.raises(UserError, match="set run_cap"):
        _run(content, jobs, compose=compose)
    assert not (tmp_path / "two").exists()


def test_a_sweep_without_a_result_says_why(tmp_path: Path) -> None:
    def objective(point: dict[str, str]) -> float:
        raise UserError(f"no disk for {point['a.lr']}")

    with pytest.raises(UserError, match=f"{tmp_path} has a result; the first: no disk for 1"):
        _run(SHOWN, Jobs(tmp_path, objective))
    assert not (tmp_path / "table.csv").exists()
