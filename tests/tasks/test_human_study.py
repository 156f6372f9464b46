"""Human scores and their correlation with metrics."""

import json
from pathlib import Path

import pytest

from ivqa.data.validation import DataError
from ivqa.tasks.human_study import correlate, mean_score


def test_scores_and_correlations() -> None:
    assert mean_score([{"score": 4}, {"score": 1}, {"relevant": True}], Path("run")) == 2.5
    scores = {"a": 1.0, "b": 2.0, "c": 2.5}
    metrics = {
        "a": {"cider": 0.9, "bleu4": 3.0, "same": 1.0, "own": 1.0},
        "b": {"cider": 1.9, "bleu4": 2.0, "same": 1.0},
        "c": {"cider": 2.4, "bleu4": 1.5, "same": 1.0},
    }
    assert correlate(scores, metrics) == {"cider": 1.0, "bleu4": -1.0}


@pytest.mark.parametrize(
    ("records", "message"),
    [([{"score": 7}], "a score is 7, not 0 to 4"), ([{"relevant": True}], "no record has a score")],
)
def test_invalid_scores_are_refused(records: list[dict[str, object]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        mean_score(records, Path("run"))


def test_the_command_prints_the_correlations(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from ivqa.tasks.human_study import human_study

    for number, name in enumerate("abc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps({"cider": number / 2}))
        (tmp_path / name / "annotations.json").write_text(json.dumps([{"score": number}]))
    file = tmp_path / "human.json"
    file.write_text(json.dumps({name: name for name in "abc"}))
    cfg = SimpleNamespace(human=str(file), output_dir=str(tmp_path / "out"))
    assert human_study(cfg) == 1.0  # type: ignore[arg-type]
    written = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert written["pearson/cider"] == 1.0
    file.write_text(json.dumps({"a": "a"}))
    with pytest.raises(DataError, match="at least three models"):
        human_study(cfg)  # type: ignore[arg-type]
