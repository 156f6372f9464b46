"""Tables, bars and curves of a multirun, from folders of jobs that are written by hand."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ivqa.report import plots
from ivqa.sweeps.multirun import (
    MultirunCurves,
    MultirunShares,
    MultirunTable,
    arranged,
    average_over_seeds,
    distinguishing,
    joined,
    replaced,
    settings_of,
    with_variant,
)

CONF = Path(__file__).parents[2] / "conf"

Jobs = Sequence[tuple[list[str], Mapping[str, float] | None]]


def _sweep(folder: Path, jobs: Jobs, **sweeper: Any) -> Any:
    """Writes the folders of jobs; returns Hydra's configuration of the multirun."""
    for number, (overrides, metrics) in enumerate(jobs):
        (folder / str(number) / ".hydra").mkdir(parents=True)
        text = "".join(f"- {item}\n" for item in overrides)
        (folder / str(number) / ".hydra" / "overrides.yaml").write_text(text)
        if metrics is not None:
            (folder / str(number) / "metrics.json").write_text(json.dumps(metrics))
    return OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}, "sweeper": sweeper}})


def _rows(folder: Path) -> list[dict[str, str]]:
    frame = pd.read_csv(folder / "table.csv", dtype=str, keep_default_na=False)
    return list(frame.to_dict("records"))


def test_the_table_of_jobs_in_order_of_their_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Twelve jobs: as texts, 10 and 11 come before 2.
    jobs: list[tuple[list[str], dict[str, float] | None]] = [
        ([f"model@vqa=m{at}", "x=1"], {"a/b": float(at), "a/b/c": 1.0}) for at in range(12)
    ]
    jobs[3] = (jobs[3][0], None)
    cfg = _sweep(tmp_path, jobs)
    (tmp_path / "notes").mkdir()  # no job
    (tmp_path / "7" / "metrics.json").write_text("{}")
    MultirunTable(title="Models").on_multirun_end(cfg)
    kept = [at for at in range(12) if at not in (3, 7)]
    assert [(row["setting"], row["a/b"]) for row in _rows(tmp_path)] == [
        (f"vqa=m{at}", str(float(at))) for at in kept
    ]
    assert set(_rows(tmp_path)[0]) == {"setting", "a/b"}
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored[2] == {
        "directory": str(tmp_path / "2"),
        "overrides": ["vqa=m2", "x=1"],
        "metrics": {"a/b": 2.0, "a/b/c": 1.0},
    }
    assert [job["metrics"] for job in stored if not job["metrics"]] == [{}, {}]
    page = (tmp_path / "table.html").read_text()
    assert "Models (10 of 12 runs)" in page
    assert re.findall(r'<a href="([^"]*)">', page) == [str(at) for at in kept]
    lines = capsys.readouterr().out.splitlines()
    assert "Models (10 of 12 runs)" in " ".join(" ".join(lines).split())
    for at in (3, 7):
        (line,) = [line for line in lines if f"vqa=m{at}, x=1" in line]
        assert str(tmp_path / str(at)) in line
    (line,) = [line for line in lines if str(tmp_path / "table.html") in line]
    assert line.startswith("table: ")


def test_a_multirun_without_metrics_has_no_table(tmp_path: Path) -> None:
    cfg = _sweep(tmp_path, [(["a=1"], None)])
    for callback in (MultirunTable(), MultirunShares({"x": "x"}), MultirunCurves()):
        callback.on_multirun_end(cfg)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_a_table_without_title_counts_its_runs(tmp_path: Path) -> None:
    MultirunTable().on_multirun_end(_sweep(tmp_path, [(["a=1"], {"x": 1.0})]))
    assert "1 of 1 runs" in (tmp_path / "table.html").read_text()
    assert _rows(tmp_path) == [{"setting": "a=1", "x": "1.0"}]


def test_columns_shared_and_joined_rows(tmp_path: Path) -> None:
    jobs: Jobs = [
        (["model=a"], {"rl/x": 1.0, "sup/x": 5.0, "y": 8.0}),
        (["model=b"], {"rl/x": 2.0, "z": 3.0}),
        (["model=c"], {"rl/x": 9.0}),
    ]
    cfg = _sweep(tmp_path, jobs)
    table = MultirunTable(
        {"X": "rl/x", "Y": "y", "Z": "z"},
        {"before": {"rl/": "sup/"}},
        {"ab": ["model=b", "model=a"]},
    )
    table.on_multirun_end(cfg)
    assert _rows(tmp_path) == [
        {"setting": "before", "X": "5.0", "Y": "8.0", "Z": "3.0"},
        {"setting": "ab", "X": "1.0", "Y": "8.0", "Z": "3.0"},
    ]


def test_means_and_deviations_over_seeds() -> None:
    jobs = [
        {"overrides": [f"model={name}", f"seed={seed}", "n=1"], "metrics": metrics}
        for name, seed, metrics in [
            ("a", 1, {"x": 1.0, "y": 0.5}),
            ("b", 1, {"x": 7.0, "z": 2.0}),
            ("a", 2, {"x": 2.0, "y": 0.5}),
            ("a", 3, {"x": 6.0}),
        ]
    ]
    # Of 1, 2 and 6 the mean is 3 and the variance (4 + 1 + 9) / 2 = 7; of 0.5 and 0.5, 0.
    assert average_over_seeds(jobs) == [
        {"setting": "model=a", "x": "3.000 ± 2.646", "y": "0.500 ± 0.000", "seeds": 3},
        {"setting": "model=b", "x": 7.0, "z": 2.0},
    ]
    only = [{"overrides": [f"seed={seed}"], "metrics": {"x": float(seed)}} for seed in (1, 3)]
    assert average_over_seeds(only) == [{"setting": "default", "x": "2.000 ± 1.414", "seeds": 2}]


def test_jobs_are_named_by_what_not_all_share() -> None:
    assert distinguishing([["a=1", "b=1", "c=1"], ["a=1", "b=2", "c=2"]]) == ["b=1 c=1", "b=2 c=2"]
    assert distinguishing([["a=1", "b=1"]]) == ["a=1 b=1"]  # of one job, all
    assert distinguishing([["a=1"], []]) == ["a=1", ""]
    jobs = [{"overrides": ["a=1", "seed=1", "seeds=2"]}, {"overrides": ["a=2", "seeds=2"]}]
    assert settings_of(jobs) == ["a=1", "a=2"]


def test_rows_are_joined_and_headings_replaced() -> None:
    rows = [{"setting": "a", "x": 1, "y": 1}, {"setting": "b", "x": 2, "z": 3}, {"setting": "c"}]
    assert joined(rows, {}) == rows
    assert joined(rows, {"q": ["b", "a"], "r": ["c"]}) == [
        {"setting": "q", "x": 1, "y": 1, "z": 3},
        {"setting": "r"},
    ]
    columns = {"X": "rl/x", "Y": "new/y", "Z": "z/rl/"}
    assert replaced(columns, {"rl/": "sup/", "new/": ""}) == {"X": "sup/x", "Y": "y", "Z": "z/rl/"}
    assert columns["X"] == "rl/x"
    row = {"setting": "a", "seeds": 2, "x": 1, "x/y": 2, "x/y/z": 3}
    assert list(arranged(row, {"Z": "x/y/z", "W": "w"}).items()) == [
        ("setting", "a"),
        ("seeds", 2),
        ("Z", 3),
        ("W", ""),
    ]
    assert arranged(row, {}) == {"setting": "a", "seeds": 2, "x": 1, "x/y": 2}


def test_bars_are_means_over_seeds_of_jobs_with_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: Jobs = [
        (["model=b", "seed=1"], {"right": 0.5, "wrong": 0.5, "more": 1.0}),
        (["model=a", "seed=1"], {"right": 0.2, "wrong": 0.8}),
        (["model=b", "seed=2"], {"right": 0.7, "wrong": 0.3}),
        (["model=c", "seed=1"], {"right": 1.0}),
    ]
    drawn: list[pd.DataFrame] = []
    write = plots.write_shares
    monkeypatch.setattr(
        plots, "write_shares", lambda path, shares: (drawn.append(shares), write(path, shares))
    )
    MultirunShares({"W": "wrong", "R": "right"}).on_multirun_end(_sweep(tmp_path, jobs))
    expected = pd.DataFrame({"W": [0.4, 0.8], "R": [0.6, 0.2]}, index=["model=b", "model=a"])
    pd.testing.assert_frame_equal(drawn[0], expected)
    assert (tmp_path / "shares.png").read_bytes()[:4] == b"\x89PNG"
    assert f"bars: {tmp_path / 'shares.png'}" in capsys.readouterr().out.splitlines()


def test_curves_are_those_of_jobs_that_measured_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = {"robustness/partition_0/accuracy": 0.6, "robustness/partition_1/accuracy": 0.5}
    jobs: Jobs = [
        (["model=a", "n=1"], curve),
        (["model=c"], {"x": 1.0}),
        (["model=b", "n=1"], curve),
    ]
    drawn: list[Any] = []
    write = plots.write_noise_curve
    monkeypatch.setattr(
        plots, "write_noise_curve", lambda path, of: (drawn.append(of), write(path, of))
    )
    MultirunCurves().on_multirun_end(_sweep(tmp_path, jobs))
    assert drawn == [{"model=a": curve, "model=b": curve}]
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert f"curves: {tmp_path / 'curves.png'}" in capsys.readouterr().out.splitlines()


VARIANTS = {"HAV": ["model=hiecoatt"], "HAR": ["model=hiecoatt", "features=lite"]}


def test_variants_have_their_names_and_two_pools_stand_in_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {
        "model=hiecoatt": ["model=hiecoatt"],
        "features=lite": ["model=hiecoatt", "features=lite"],
        "model=mlb": ["model=mlb"],
    }
    pairs = list(product(models.values(), ("gbqd", "ynbqd")))
    jobs: Jobs = [
        ([model[0], f"bqd={pool}", *model[1:]], {"robustness/partition_0/accuracy": at / 8})
        for at, (model, pool) in enumerate(pairs)
    ]
    cfg = _sweep(tmp_path, jobs, variants=VARIANTS)
    columns = {
        "G": "GBQD/robustness/partition_0/accuracy",
        "Y": "Y/robustness/partition_0/accuracy",
    }
    table = MultirunTable(columns, side_by_side={"GBQD": "bqd=gbqd", "Y": "bqd=ynbqd"})
    table.on_multirun_end(cfg)
    assert _rows(tmp_path) == [
        {"setting": "HAV", "G": "0.0", "Y": "0.125"},
        {"setting": "HAR", "G": "0.25", "Y": "0.375"},
        {"setting": "model=mlb", "G": "0.5", "Y": "0.625"},
    ]
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [job["overrides"] for job in stored] == [overrides for overrides, _ in jobs]
    drawn: dict[str, list[str]] = {}
    monkeypatch.setattr(
        plots, "write_noise_curve", lambda path, of: drawn.update({path.name: list(of)})
    )
    MultirunCurves(["model"]).on_multirun_end(cfg)
    both = ["bqd=gbqd", "bqd=ynbqd"]
    assert drawn == {"curves_HAV.png": both, "curves_HAR.png": both, "curves_mlb.png": both}
    drawn.clear()
    MultirunCurves().on_multirun_end(cfg)
    assert drawn["curves.png"][2:5] == ["HAR bqd=gbqd", "HAR bqd=ynbqd", "model=mlb bqd=gbqd"]


def test_pools_of_one_model_and_several_seeds_stand_in_one_row(tmp_path: Path) -> None:
    jobs: Jobs = [
        ([f"bqd={pool}", f"seed={seed}"], {"r": at + seed})
        for at, pool in enumerate(("a", "b"))
        for seed in (1, 2)
    ]
    table = MultirunTable({"A": "A/r", "B": "B/r"}, side_by_side={"A": "bqd=a", "B": "bqd=b"})
    table.on_multirun_end(_sweep(tmp_path, jobs))
    assert _rows(tmp_path) == [
        {"setting": "default", "seeds": "2", "A": "1.500 ± 0.707", "B": "2.500 ± 0.707"}
    ]


def test_a_value_with_variants_is_run_once_for_each() -> None:
    Plugins.instance()  # loads Hydra's sweeper anew, and a subclass of the earlier one is of no use
    module = import_module("hydra_plugins.ivqa_variant_sweeper")
    sweeper = module.VariantSweeper(VARIANTS)
    given = ["model=lstm_qi,hiecoatt", "bqd=gbqd,ynbqd", "features=vgg19"]
    overrides = OverridesParser.create().parse_overrides(given)
    assert sweeper.split_arguments(overrides, None) == [
        [
            ["model=lstm_qi", "bqd=gbqd", "features=vgg19"],
            ["model=lstm_qi", "bqd=ynbqd", "features=vgg19"],
            ["model=hiecoatt", "bqd=gbqd", "features=vgg19"],
            ["model=hiecoatt", "bqd=gbqd", "features=lite"],
            ["model=hiecoatt", "bqd=ynbqd", "features=vgg19"],
            ["model=hiecoatt", "bqd=ynbqd", "features=lite"],
        ]
    ]
    assert [len(part) for part in sweeper.split_arguments(overrides, 4)] == [4, 2]
    (jobs,) = module.VariantSweeper().split_arguments(overrides, None)
    assert len(jobs) == 4
    assert with_variant(["model=mlb"], VARIANTS) == ["model=mlb"]


@pytest.mark.parametrize(
    ("experiment", "jobs"),
    [("table2_gbqd", 6), ("table3_ynbqd", 6), ("table4_r_scores", 12), ("table_text_metrics", 96)],
)
def test_six_models_are_measured(experiment: str, jobs: int) -> None:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        chosen = [f"experiment={experiment}"]
        settings = loader.load_configuration("evaluate", chosen, RunMode.MULTIRUN).hydra.sweeper
        sweeper = instantiate(settings)
        given = [f"{key}={values}" for key, values in settings.params.items()]
        overrides = OverridesParser.create(loader).parse_overrides([*given, *chosen])
        (found,) = sweeper.split_arguments(overrides, None)
        assert len(found) == jobs
        own = next(job for job in found if with_variant(job, settings.variants)[0] == "HAR")
        cfg = compose("evaluate", own)
    assert cfg.model.name == "hiecoatt"
    assert cfg.features._target_.endswith("EfficientNetLiteFeatures")
