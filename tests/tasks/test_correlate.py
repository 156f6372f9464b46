"""Correlation of automatic metrics with oracle consistency over runs."""

import csv
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from ivqa.errors import UserError
from ivqa.tasks.human_study.correlate import correlate

CONF = Path(__file__).parents[2] / "conf"
METRICS = {"CIDEr": "cider", "MRR": "pools/mean_reciprocal_rank", "novel": "novel", "same": "same"}
TARGETS = ["best/consistent", "samples/consistent"]


def _sweep(folder: Path, number: int, **changes: Any) -> np.ndarray:
    """A multirun directory; returns the (number, 5) values of its runs."""
    rng = np.random.default_rng(1)
    target = rng.random(number)
    values = np.stack(
        [target, rng.random(number), target + rng.normal(0, 0.3, number), 1 - target,
         rng.random(number)],
        axis=1,
    )  # fmt: skip
    names = [*TARGETS, "cider", "novel", "pools/mean_reciprocal_rank"]
    for job, row in enumerate(values):
        (folder / str(job)).mkdir(parents=True)
        metrics = dict(zip(names, row.tolist(), strict=True)) | {"same": 2.0}
        (folder / str(job) / "metrics.json").write_text(json.dumps(metrics | changes))
    return values


@cache
def _composed() -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("evaluate", ["task=correlate", "runs=[x]"])


def _cfg(runs: list[Path], output: Path, **values: Any) -> Any:
    settings = {"metrics": METRICS, "resamples": 300, "logger": None}
    settings |= {"runs": [str(run) for run in runs], "output_dir": str(output)}
    cfg = _composed().copy()
    for key, value in {**settings, **values}.items():
        OmegaConf.update(cfg, key, value, merge=False)
    return cfg


def test_all_coefficients_of_a_multirun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = _sweep(tmp_path / "sweep", 12)
    best = correlate(_cfg([tmp_path / "sweep"], tmp_path / "out"))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    columns = {"cider": 2, "novel": 3, "pools/mean_reciprocal_rank": 4}
    functions = {
        "pearson": scipy.stats.pearsonr,
        "spearman": scipy.stats.spearmanr,
        "kendall": scipy.stats.kendalltau,
    }
    for target, column in zip(TARGETS, (0, 1), strict=True):
        for metric, other in columns.items():
            for name, function in functions.items():
                expected = function(values[:, column], values[:, other]).statistic
                key = f"{target}/{name}/{metric}"
                assert metrics[key] == pytest.approx(expected, abs=1e-12)
                assert metrics[f"{key}_low"] <= metrics[key] <= metrics[f"{key}_high"]
    # novel is 1 - target: by hand, and all resamples agree.
    for name in functions:
        key = f"best/consistent/{name}/novel"
        assert [metrics[key], metrics[f"{key}_low"], metrics[f"{key}_high"]] == pytest.approx(
            [-1] * 3
        )
    assert not any("same" in key for key in metrics)  # does not vary
    assert best == pytest.approx(scipy.stats.pearsonr(values[:, 0], values[:, 2]).statistic)

    said = capsys.readouterr().out
    assert max(map(len, said.split("run: ")[0].splitlines())) <= 80
    assert said.index("CIDEr") < said.index("novel")  # by falling correlation
    for ending in ("md", "csv", "tex", "html"):
        assert (tmp_path / "out" / f"table.{ending}").is_file()
    with (tmp_path / "out" / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["metric"], row["with"]) for row in rows][2] == ("novel", "best/consistent")
    assert rows[2]["Kendall"] == "-1.00 (-1.00, -1.00)"
    assert len(rows) == 6


def test_runs_of_one_model_and_seed_are_drawn_together(tmp_path: Path) -> None:
    """Temperatures: each of 12 runs is copied three times, and the intervals stay as they were."""
    _sweep(tmp_path / "sweep", 12)
    _sweep(tmp_path / "copies", 12)
    for job in range(12):
        folder = tmp_path / "copies" / str(job)
        (folder / "config.yaml").write_text(f"name: {'ab'[job % 2]}\nseed: {job // 2}\n")
        for copy in (1, 2):
            shutil.copytree(folder, tmp_path / "copies" / f"{job}_{copy}")
    found = []
    for name in ("sweep", "copies"):
        correlate(_cfg([tmp_path / name], tmp_path / "out"))
        metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
        high, low = (metrics[f"best/consistent/pearson/cider_{end}"] for end in ("high", "low"))
        found.append((metrics["best/consistent/pearson/cider"], high - low))
    assert found[1][0] == pytest.approx(found[0][0])
    assert found[1][1] == pytest.approx(found[0][1], rel=0.15)


def test_a_metric_that_some_runs_lack_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _sweep(tmp_path / "sweep", 4)
    file = tmp_path / "sweep" / "2" / "metrics.json"
    metrics = json.loads(file.read_text())
    del metrics["cider"]
    file.write_text(json.dumps(metrics))
    correlate(_cfg([tmp_path / "sweep"], tmp_path / "out"))
    assert "not in all runs: cider" in capsys.readouterr().out
    assert "cider" not in (tmp_path / "out" / "metrics.json").read_text()


def test_bad_runs_are_refused_in_one_sentence(tmp_path: Path) -> None:
    _sweep(tmp_path / "sweep", 3)
    jobs = [tmp_path / "sweep" / name for name in "012"]

    def refusal(runs: list[Path], **values: Any) -> str:
        with pytest.raises(UserError) as caught:
            correlate(_cfg(runs, tmp_path / "out", **values))
        return str(caught.value)

    assert "runs= names 2 finished runs; a correlation needs at least 3" in refusal(jobs[:2])
    assert "0 is named twice" in refusal([*jobs, tmp_path / "sweep"])
    (tmp_path / "empty").mkdir()
    assert "empty has no metrics.json" in refusal([*jobs, tmp_path / "empty"])
    message = refusal(jobs, targets=["best/consistent", "judge/consistent"])
    assert "metrics.json has no judge/consistent" in message
