"""The figures of small human studies, computed by hand."""

import csv
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from ivqa.metrics import (
    krippendorff_alpha,
)
from ivqa.tasks.human_study.items import Study, StudyItem
from ivqa.tasks.human_study.task import _agreement, human_study

CONF = Path(__file__).parents[2] / "conf"
METRICS = {"CIDEr": "cider", "MRR": "pools/mean_reciprocal_rank", "oracle": "best/consistent"}


@cache
def _composed() -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("evaluate", ["task=human_study"])


def _items(*models: str, values: Sequence[dict[str, float]] = ()) -> list[StudyItem]:
    """One item of each image, asked by the models whose letters are given."""
    own = values or [{}] * len(models)
    return [
        StudyItem(str(at), at, "no", "Is it?", "Is it?", list(letters), own[at])
        for at, letters in enumerate(models)
    ]


def _small_study(folder: Path, models: str, **metrics: dict[str, float]) -> Study:
    """Six questions whose CIDEr is 1 to 6; metrics of the models by letter."""
    items = _items(
        *(models[at % len(models)] for at in range(6)),
        values=[{"cider": at + 1.0, "same": 1.0} for at in range(6)],
    )
    study = Study("s", metrics, {name: f"runs/{name}" for name in models}, items)
    folder.mkdir(parents=True, exist_ok=True)
    study.write(folder)
    return study


def _key(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((study / "key.json").read_text())
    return found


def _rate(
    study: Path, file: Path, person: str, ratings: dict[str, Any], name: str | None = None
) -> str:
    """A file as the page exports it; `name` is the id of another study."""
    content = {"study": name or _key(study)["id"], "person": person, "ratings": ratings}
    file.write_text(json.dumps(content))
    return str(file)


def _ratings(folder: Path, **people: Sequence[int | None]) -> list[str]:
    return [
        _rate(
            folder,
            folder / f"{person}.json",
            person,
            {str(at): score for at, score in enumerate(scores) if score is not None},
        )
        for person, scores in people.items()
    ]


def _small_cfg(output: Path, **values: Any) -> Any:
    cfg = _composed().copy()
    settings = {"resamples": 200, "logger": None, "output_dir": str(output), "metrics": METRICS}
    for key, value in {**settings, **values}.items():
        OmegaConf.update(cfg, key, value, merge=False)
    return cfg


def test_the_figures_of_a_small_study_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = tmp_path / "study", tmp_path / "out"
    qualities = {"a": {"cider": 0.1, "x": 1.0}, "b": {"cider": 0.9}}
    qualities["c"] = {"cider": 0.2, "x": 2.0}
    _small_study(folder, "abc", **qualities)
    # Question 5, of model c, has no score. The means are 1, 2, 4, 1 and 3.
    human = _ratings(folder, Anna=[0, 2, 4, 1, 3, None], Ben=[2, 2, 4, 1, None, None])
    headings = {"CIDEr": "cider", "X": "x", "same": "same", "none": "none"}
    cfg = _small_cfg(output, human=human, metrics=headings)
    output.mkdir()  # a second evaluation replaces the first
    best = human_study(cfg)
    metrics = json.loads((output / "metrics.json").read_text())
    means = {"a": (1 + 1) / 2, "b": (2 + 3) / 2, "c": 4.0}
    assert {name: metrics[f"human/{name}"] for name in means} == pytest.approx(means)
    assert (metrics["human/c_low"], metrics["human/c_high"]) == (4, 4)  # a single question
    assert (metrics["human/b_low"], metrics["human/b_high"]) == (2, 3)
    assert (metrics["agreement/people"], metrics["agreement/ratings"]) == (2, 9)
    ratings = np.array([[0, 2, 4, 1, 3], [2, 2, 4, 1, np.nan]])
    alpha = krippendorff_alpha(ratings)
    assert metrics["agreement/alpha"] == pytest.approx(alpha)
    assert metrics["agreement/alpha_low"] <= alpha <= metrics["agreement/alpha_high"] <= 1
    # Over models: (0.1, 1), (0.9, 2.5), (0.2, 4); the metric x lacks a value, "same" is constant.
    pearson = np.corrcoef([0.1, 0.9, 0.2], [1, 2.5, 4])[0, 1]
    assert best == metrics["models/pearson/cider"] == pytest.approx(pearson)
    assert metrics["models/spearman/cider"] == pytest.approx(0.5)
    # Over questions: CIDEr 1 to 5 against the means.
    pearson = np.corrcoef([1, 2, 3, 4, 5], [1, 2, 4, 1, 3])[0, 1]
    assert metrics["questions/pearson/cider"] == pytest.approx(pearson)
    spearman = scipy.stats.spearmanr([1, 2, 3, 4, 5], [1, 2, 4, 1, 3]).statistic
    assert metrics["questions/spearman/cider"] == pytest.approx(spearman)
    low, high = (metrics[f"questions/pearson/cider_{end}"] for end in ("low", "high"))
    assert low < pearson < high
    correlations = {key for key in metrics if key.startswith(("models/", "questions/"))}
    assert {key.split("/")[2] for key in correlations} == {"cider", "cider_low", "cider_high"}
    tables = {name: _table(output / f"{name}.csv") for name in ("scores", "over_models")}
    assert [tuple(row.values())[:2] for row in tables["scores"]] == [
        ("a", "1.00"),
        ("b", "2.50"),
        ("c", "4.00"),
    ]
    assert [row["questions"] for row in tables["scores"]] == ["2", "2", "1"]
    assert tables["scores"][1]["95 percent"] == "2.00 to 3.00"
    assert tables["over_models"] == [{"metric": "CIDEr", "Pearson": "0.11", "Spearman": "0.50"}]
    (row,) = _table(output / "over_questions.csv")
    assert row["metric"] == "CIDEr"
    assert row["Pearson"].startswith("0.36")
    assert row["Spearman"].startswith("0.36")
    said = capsys.readouterr().out
    for title in ("from 0 to 4, 2 people", "scores over 3 models", "scores over 5 questions"):
        assert title in " ".join(said.split())
    assert f"run: {output}" in said.splitlines()  # in one line, so that it can be copied
    config = OmegaConf.load(output / "config.yaml")
    assert config.human == human
    assert "${" not in (output / "config.yaml").read_text()
    # With other resamples the interval is another one, and the same twice.
    again = human_study(_small_cfg(output, human=human, metrics=headings))
    assert again == best
    assert json.loads((output / "metrics.json").read_text()) == metrics


def _table(file: Path) -> list[dict[str, str]]:
    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_intervals_are_over_images(tmp_path: Path) -> None:
    """Ten questions of two images: one image has score 0, the other 4."""
    items = [
        StudyItem(str(at), at // 5, "no", "Is it?", "Is it?", ["a"], {"cider": at // 5 + at / 100})
        for at in range(10)
    ]
    Study("s", {"a": {}}, {"a": "runs/a"}, items).write(tmp_path)
    scores = [0] * 5 + [4] * 5
    human = _ratings(tmp_path, Anna=scores, Ben=[1, *scores[1:]])
    assert human_study(_small_cfg(tmp_path / "out", human=human, resamples=500)) > 0.9
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    # Both images are the first one in a quarter of the samples.
    assert (metrics["human/a_low"], metrics["human/a_high"]) == (0.1, 4)
    assert metrics["human/a"] == pytest.approx((0.5 + 20) / 10)


def test_the_interval_of_agreement_is_over_images() -> None:
    """Of two images, a resample has one of them twice, or both: three values of alpha."""
    ratings = np.array([[0.0, 1, 2, 3, 4, 0, 4, 1, 3, 2], [0.0, 1, 2, 3, 4, 1, 4, 0, 2, 3]])
    image_ids = np.repeat([7, 8], 5)
    found = _agreement(ratings, image_ids, resamples=400)
    doubled = [np.tile(ratings[:, image_ids == image], 2) for image in (7, 8)]
    worst, best = sorted(map(krippendorff_alpha, doubled))
    assert found["agreement/alpha"] == pytest.approx(krippendorff_alpha(ratings))
    assert found["agreement/alpha_low"] == pytest.approx(worst)
    assert found["agreement/alpha_high"] == pytest.approx(best)


@pytest.mark.parametrize(("models", "level"), [("ab", "questions"), ("abc", "models")])
def test_the_best_correlation_is_that_over_models_where_there_are_three(
    models: str,
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    qualities = {name: {"cider": at, "other": (at - 1.2) ** 2} for at, name in enumerate(models)}
    study = _small_study(tmp_path, models, **qualities)
    for at, item in enumerate(study.items):
        item.values["other"] = (at - 2.5) ** 2
    study.write(tmp_path)
    human = _ratings(tmp_path, Anna=[0, 1, 4, 1, 3, 4])
    headings = {"CIDEr": "cider", "other": "other"}
    best = human_study(_small_cfg(tmp_path / "out", human=human, metrics=headings))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert best == max(metrics[f"{level}/pearson/{name}"] for name in ("cider", "other"))
    assert (tmp_path / "out" / "over_models.csv").is_file() is (level == "models")
    lines = capsys.readouterr().out.splitlines()  # of sentences, which are not broken
    said = any("needs 3 models, and the study has 2." in line for line in lines)
    assert said is (level == "questions")
    assert any(line.startswith("The agreement is") and line.endswith("scores.") for line in lines)
    assert not any(key.startswith("agreement/alpha") for key in metrics)  # of one person


def test_without_a_metric_that_varies_there_is_no_correlation(tmp_path: Path) -> None:
    _small_study(tmp_path, "ab", a={}, b={})
    human = _ratings(tmp_path, Anna=[0, 1, 4, 1, 3, 4])
    best = human_study(_small_cfg(tmp_path / "out", human=human, metrics={"same": "same"}))
    assert np.isnan(best)
    assert not (tmp_path / "out" / "over_questions.csv").exists()
