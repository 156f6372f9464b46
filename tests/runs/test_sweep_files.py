"""Sweep files of W&B as sweeps without an account read them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ivqa.errors import UserError
from ivqa.sweeps.sweep_files import (
    SweepFile,
    distribution,
    read_sweep,
    sweep_file,
    with_sweep,
)

FORMS = (
    "must have value, values, or min and max, and as distribution uniform, int_uniform (of "
    "integers), log_uniform_values or, with q, q_uniform"
)
CONF = Path(__file__).parents[2] / "conf"
SWEEP = {
    "program": "evaluate.py",
    "method": "bayes",
    "metric": {"name": "loss"},
    "parameters": {
        "ranker.lam": {"distribution": "log_uniform_values", "min": 1e-6, "max": 0.01},
        "encoder.size": {"values": [64, 256]},
        "reward": {"value": "goal"},
        "model.epochs": {"min": 1, "max": 3},
    },
    "command": ["${env}", "${program}", "model=mlb", "logger=wandb", "${args_no_hyphens}"],
}


def _file(tmp_path: Path, **changes: Any) -> Path:
    file = tmp_path / "my_sweep.yaml"
    file.write_text(yaml.dump({**SWEEP, **changes}))
    return file


def _read(tmp_path: Path, **changes: Any) -> SweepFile:
    return read_sweep(_file(tmp_path, **changes))[0]


def test_a_file_is_read(tmp_path: Path) -> None:
    sweep = _read(tmp_path)
    assert sweep.metric.goal == "minimize"  # as in W&B
    assert sweep.fixed_arguments() == ["model=mlb"]
    assert sweep.parameters == {
        "ranker.lam": FloatDistribution(1e-6, 0.01, log=True),
        "encoder.size": CategoricalDistribution([64, 256]),
        "reward": CategoricalDistribution(["goal"]),
        "model.epochs": IntDistribution(1, 3),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "tpe"}, "method: Input should be 'grid', 'random' or 'bayes'"),
        ({"method": "grid"}, "ranker.lam is an interval; method=grid needs lists of values"),
        ({"early_terminate": {"type": "hyperband"}}, "early_terminate: is unknown here"),
        ({"metric": {"name": "x", "goal": "maximise"}}, "metric.goal: Input should be 'minimize'"),
        ({"parameters": {}}, "parameters: Dictionary should have at least 1 item"),
        ({"parameters": {"lr": {"distribution": "normal", "mu": 1}}}, f"parameters.lr: {FORMS}"),
        ({"parameters": {"lr": {"min": 1}}}, f"parameters.lr: {FORMS}"),
        ({"parameters": {"lr": {"min": "a", "max": 1}}}, FORMS),
        ({"parameters": {"lr": 1}}, f"parameters.lr: {FORMS}"),
        ({"parameters": {"lr": {"min": 2, "max": 1}}}, "got (low=2, high=1)"),
        ({"parameters": {"lr": {"values": [1], "max": 1}}}, f"parameters.lr: {FORMS}"),
        ({"parameters": {"lr": {"values": []}}}, "must contain one or more elements"),
        (
            {"parameters": {"lr": {"distribution": "log_uniform_values", "min": 0, "max": 1}}},
            "`low > 0` must hold for `log=True`, but got (low=0, high=1)",
        ),
        (
            {"parameters": {"lr": {"distribution": "int_uniform", "min": 0.5, "max": 2}}},
            FORMS,
        ),
        (
            {"parameters": {"lr": {"distribution": "q_uniform", "min": 0, "max": 2}}},
            FORMS,
        ),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"my_sweep\.yaml: ") as raised:
        _read(tmp_path, **changes)
    assert message in str(raised.value)


def test_the_command_line_replaces_parameters(tmp_path: Path) -> None:
    sweep, fixed = read_sweep(
        _file(tmp_path),
        [
            "model=mlb",
            "encoder.size=16",
            "reward@model.module.rewards=goal,full",
            "ranker.lam=interval(0.1,0.2)",
            "seed=range(1,4)",
            "model.epochs=tag(log,interval(1,8))",
        ],
    )
    assert fixed == ["model=mlb", "encoder.size=16"]
    assert sweep.parameters == {
        "ranker.lam": FloatDistribution(0.1, 0.2),
        "reward": CategoricalDistribution(["goal", "full"]),
        "model.epochs": FloatDistribution(1, 8, log=True),
        "seed": CategoricalDistribution([1, 2, 3]),
    }
    with pytest.raises(UserError, match="method=grid needs lists"):
        read_sweep(CONF / "sweep" / "lasso_lambda.yaml", ["ranker.lam=interval(0,1)"])


def test_sweep_is_written_out_for_hydra() -> None:
    arguments = with_sweep(
        ["vqa=vanilla", "sweep=rl_rewards", "trials=4", "output_dir=here"], [CONF], "diagnose"
    )
    assert arguments[:2] == ["-m", "hydra/sweeper=optuna"]
    assert f"hydra.sweeper.file='{CONF / 'sweep' / 'rl_rewards.yaml'}'" in arguments
    assert "hydra.sweeper.trials=4" in arguments
    assert not [item for item in arguments if "wandb" in item]
    # The user's arguments come after those of the file, so they count.
    assert arguments.index("vqa=mlb") < arguments.index("vqa=vanilla")
    assert arguments[-1] == "output_dir=here"
    assert with_sweep(["seed=2"], [CONF], "diagnose") == ["seed=2"]
    by_default = with_sweep(["sweep=rl_rewards"], [CONF], "diagnose")
    assert "output_dir=outputs/sweeps/rl_rewards" in by_default
    assert "-m" not in with_sweep(["sweep=rl_rewards", "--cfg", "job"], [CONF], "diagnose")


def test_a_wrong_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is for diagnose\.py, not for train\.py"):
        with_sweep(["sweep=rl_rewards"], [CONF], "train")
    with pytest.raises(UserError, match="no sweep=rl_reward; did you mean rl_rewards"):
        with_sweep(["sweep=rl_reward"], [CONF], "diagnose")
    with pytest.raises(UserError, match="there is no such file"):
        with_sweep([f"sweep={tmp_path}/x.yaml"], [CONF], "diagnose")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "own.yaml").write_text(yaml.dump(SWEEP))
    assert with_sweep(["sweep=own"], [CONF, tmp_path], "evaluate")[0] == "-m"


def test_the_sweep_of_lambda_minimises_the_slope_of_the_noise_curve() -> None:
    """The trend is -1 for every ranking that orders the levels, so it has no minimum."""
    metric = read_sweep(CONF / "sweep" / "lasso_lambda.yaml")[0].metric
    assert (metric.name, metric.goal) == ("robustness/slope", "minimize")


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (["sweep=own"], ["-m"], ["output_dir=outputs/sweeps/own", "model=mlb"]),
        (["-m", "sweep=own", "a=1"], ["-m"], ["output_dir=outputs/sweeps/own", "model=mlb", "a=1"]),
        (["sweep=own", "--multirun"], ["-m"], ["output_dir=outputs/sweeps/own", "model=mlb"]),
        (["sweep=own", "output_dir=x"], ["-m"], ["model=mlb", "output_dir=x"]),
        (["sweep=own", "hydra.sweep.dir=x"], ["-m"], ["model=mlb", "hydra.sweep.dir=x"]),
        (
            ["--config-dir=x", "sweep=other", "sweep=own", "trials=3"],
            ["-m"],
            [
                "output_dir=outputs/sweeps/own",
                "model=mlb",
                "--config-dir=x",
                "hydra.sweeper.trials=3",
            ],
        ),
        (
            ["sweep=own", "--cfg", "job"],
            [],
            ["output_dir=outputs/sweeps/own", "model=mlb", "--cfg", "job"],
        ),
    ],
)
def test_arguments_for_hydra(
    arguments: list[str], before: list[str], after: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "sweep" / "own.yaml"
    file.parent.mkdir()
    file.write_text(yaml.dump(SWEEP))
    assert with_sweep(arguments, [CONF, tmp_path], "evaluate") == [
        *before,
        "hydra/sweeper=optuna",
        f"hydra.sweeper.file='{file}'",
        "~hydra.callbacks.table",
        *after,
    ]


def test_without_optuna_the_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ivqa.sweeps.sweep_files")
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    with pytest.raises(UserError, match=r"pip install 'ivqa\[sweeps\]'"):
        importlib.import_module("ivqa.sweeps.sweep_files")


def test_sweep_files_are_found_by_name_in_the_last_folder_or_by_path(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("conf", "own")]
    for folder in folders:
        (folder / "sweep").mkdir(parents=True)
        for name in ("rates", "sizes"):
            (folder / "sweep" / f"{name}.yaml").write_text("")
    (folders[0] / "sweep" / "zeta.yaml").write_text("")
    assert sweep_file("rates", folders) == folders[1] / "sweep" / "rates.yaml"
    assert sweep_file("zeta", folders) == folders[0] / "sweep" / "zeta.yaml"
    for ending in (".yaml", ".yml"):
        (tmp_path / f"x{ending}").write_text("")
        assert sweep_file(f"{tmp_path}/x{ending}", folders) == tmp_path / f"x{ending}"
        with pytest.raises(UserError, match=f"sweep=y{ending}: there is no such file"):
            sweep_file(f"y{ending}", folders)
    with pytest.raises(UserError, match=r"no sweep=rats; did you mean rates\?$"):
        sweep_file("rats", folders)
    with pytest.raises(UserError, match=r"no sweep=nothing; there are rates, sizes, zeta$"):
        sweep_file("nothing", folders)


def test_all_mistakes_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    changes = {"parameters": {"lr": {"min": 1}, "n": {"value": 1, "step": 2}}, "more": 1}
    with pytest.raises(UserError) as raised:
        _read(tmp_path, **changes)
    file, _, faults = str(raised.value).partition(": ")
    assert file == str(tmp_path / "my_sweep.yaml")
    assert sorted(faults.split("; ")) == [
        "more: is unknown here",
        f"parameters.lr: {FORMS}",
        f"parameters.n: {FORMS}",
    ]


def test_a_command_line_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    metric = {"name": "gain", "goal": "maximize"}
    file = _file(tmp_path, metric=metric, run_cap=7, command=["logger=csv", "a=1", "b"])
    sweep, _ = read_sweep(file)
    changed, fixed = read_sweep(file, ["+x=1", "~y", "n=interval(1,3)", "model@vqa=a,b"])
    assert fixed == ["+x=1", "~y"]
    assert (changed.metric, changed.run_cap, changed.method) == (sweep.metric, 7, "bayes")
    assert changed.fixed_arguments() == ["a=1"]
    assert changed.parameters == {
        **sweep.parameters,
        "n": FloatDistribution(1, 3),
        "model@vqa": CategoricalDistribution(["a", "b"]),
    }
    with pytest.raises(UserError, match=r"^sweep: parameters: Dictionary should have at least 1"):
        read_sweep(file, [f"{key}=1" for key in sweep.parameters])


def test_a_grid_of_integers_has_both_bounds(tmp_path: Path) -> None:
    parameters = {"n": {"distribution": "int_uniform", "min": -1, "max": 2}}
    sweep = _read(tmp_path, method="grid", parameters=parameters)
    assert sweep.grid() == [{"n": n} for n in (-1, 0, 1, 2)]


def test_the_distribution_of_an_interval() -> None:
    steps = distribution({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25})
    assert steps == FloatDistribution(0, 1, step=0.25)
    assert distribution({"distribution": "uniform", "min": 0, "max": 1}) == FloatDistribution(0, 1)
    assert distribution({"min": 0, "max": 1.0}) == FloatDistribution(0, 1)
