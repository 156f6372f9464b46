"""task=vqabq_thresholds on the command line."""

from pathlib import Path

import pytest

from .conftest import TINY_FEATURES, Run, metrics_of


def test_thresholds_are_searched_on_one_split_and_measured_on_another(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [
        "model=language_only",
        "model.epochs=1",
        "data=vqa_json",
        f"data.root={tiny_root}",
        *TINY_FEATURES,
        f"artifacts={tmp_path / 'artifacts'}",
        "split=train",
    ]
    task = ["task=vqabq_thresholds", "noise.thresholds=[0.2,0.3,0.4]", "deviations=[-1.5,0,1]"]
    status, printed = run("evaluate", *task, *command, f"output_dir={tmp_path / 'search'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "search")
    assert metrics["searched/combinations"] == 27
    assert [metrics[f"published/s{number}"] for number in (1, 2, 3)] == [0.2, 0.3, 0.4]
    grid: list[list[float]] = []
    # Each threshold is one of three values of the split that chooses them.
    for number, name in enumerate(("score1", "score2_over_score1", "score3_over_score2"), start=1):
        mean, deviation = (metrics[f"search/{name}{end}"] for end in ("", "_std"))
        grid.append([max(0.0, mean + d * deviation) for d in (-1.5, 0, 1)])
        assert any(metrics[f"searched/s{number}"] == pytest.approx(value) for value in grid[-1])
    # No other triple of the grid is better on the split that chooses: the lowest, and the highest.
    for end in (0, -1):
        triple = ",".join(repr(values[end]) for values in grid)
        other = ["task=vqabq_thresholds", f"noise.thresholds=[{triple}]", "deviations=[0]"]
        status, printed = run("evaluate", *other, *command, f"output_dir={tmp_path / str(end)}")
        assert status == 0, printed
        accuracy = metrics_of(tmp_path / str(end))["search/published/accuracy"]
        assert accuracy <= metrics["search/searched/accuracy"]
    # noise=vqabq with the same thresholds, which asks the model anew, agrees.
    for name in ("published", "searched"):
        triple = ",".join(repr(metrics[f"{name}/s{number}"]) for number in (1, 2, 3))
        noise = ["callbacks=robustness", "noise=vqabq", f"noise.thresholds=[{triple}]"]
        status, printed = run("evaluate", *noise, *command, f"output_dir={tmp_path / name}")
        assert status == 0, printed
        other = metrics_of(tmp_path / name)
        clean, noisy = (other[f"robustness/partition_{level}/accuracy"] for level in (0, 1))
        assert metrics["reported/accuracy"] == pytest.approx(clean)
        assert metrics[f"reported/{name}/accuracy"] == pytest.approx(noisy)
        assert metrics[f"reported/{name}/gain"] == pytest.approx(noisy - clean)
        for count in range(4):
            share = other[f"robustness/helpful_{count}"]
            assert metrics[f"reported/{name}/helpful_{count}"] == pytest.approx(share)
            number = metrics[f"reported/{name}/questions_{count}"]
            assert number == pytest.approx(share * metrics["reported/questions"])
    table = (tmp_path / "search" / "table.md").read_text()
    assert "published (0.20, 0.30, 0.40)" in table
    assert "score3 / score2, val" in (tmp_path / "search" / "statistics.md").read_text()


def test_what_has_no_thresholds_is_refused(run: Run, tiny_root: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "split=val"]
    status, printed = run("evaluate", "task=vqabq_thresholds", "model=ivqa_vae", *data)
    assert (status, "answers no questions; choose a VQA model" in printed) == (1, True), printed
    status, printed = run("evaluate", "task=vqabq_thresholds", "noise=word_shuffling", *data)
    assert (status, "for noise=vqabq; choose it" in printed) == (1, True), printed
