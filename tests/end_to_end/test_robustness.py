"""Robustness on the command line: noise and comparison of runs."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from .conftest import TINY_FEATURES, Run, metrics_of


def _command(root: Path, *overrides: str) -> list[str]:
    return ["data=vqa_json", f"data.root={root}", *TINY_FEATURES, "model.epochs=1", *overrides]


def test_two_models_are_compared_question_by_question(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    runs = []
    for model, logger in (("language_only", "wandb"), ("vanilla", "csv")):
        runs.append(tmp_path / model)
        command = _command(tiny_root, f"model={model}", "callbacks=robustness", f"logger={logger}")
        command += ["r_score.tolerance=0", "r_score.limit=1"]
        status, printed = run("evaluate", *command, f"output_dir={runs[-1]}")
        assert status == 0, printed
    media = runs[0] / "wandb" / "latest-run" / "files" / "media"
    assert list(media.glob("images/noise_curve_*.png"))
    assert list(media.glob("table/noise_table_*.json"))
    records = pd.read_parquet(runs[0] / "robustness.parquet")
    metrics = metrics_of(runs[0])
    for level, rows in records.groupby("level"):
        expected = metrics[f"robustness/partition_{level}/accuracy"]
        assert rows["accuracy"].mean() == pytest.approx(expected)
        ends = [metrics[f"robustness/partition_{level}/accuracy_{end}"] for end in ("low", "high")]
        assert ends[0] <= expected <= ends[1]
    clean, noisy = (metrics[f"robustness/partition_{level}/accuracy"] for level in (0, 1))
    assert metrics["robustness/r_score"] == pytest.approx(1 - abs(clean - noisy) ** 0.5)
    assert metrics["robustness/gap"] < 1e-6
    assert 0 <= metrics["robustness/short_rankings"] <= 1

    compared = tmp_path / "compared"
    both = [f"compare=[{runs[0]},{runs[1]}]", "r_score.tolerance=0", "r_score.limit=1"]
    status, printed = run("evaluate", *both, f"output_dir={compared}")
    assert status == 0, printed
    assert "Vanilla VQA against the language-only model, 30 questions" in printed
    differences = metrics_of(compared)
    other = metrics_of(runs[1])
    for name in ("partition_0/accuracy", "partition_7/accuracy", "r_score"):
        key = name if name != "r_score" else "r_score_partition_1"
        assert differences[f"first/{key}"] == pytest.approx(metrics[f"robustness/{name}"])
        assert differences[f"second/{key}"] == pytest.approx(other[f"robustness/{name}"])
    table = (compared / "table.md").read_text()
    assert table.count("\n|") == 9  # eight levels and the lines below the header
    assert "R_score 0: the accuracy changes by 100 points or more; 1: by 0 points or less." in table
    origin = json.loads((runs[1] / "provenance.json").read_text())
    assert origin["command"].startswith("python evaluate.py data=vqa_json ")
    # 30 questions of the benchmark and at each of eight levels; the weights by their digest.
    assert (origin["model"], origin["questions_asked"]) == ("vanilla", 270)
    assert len(origin["models"]["vanilla"]) == 16
    assert f"; {origin['started'][:10]}; " in (runs[1] / "robustness.html").read_text()
    assert metrics["robustness/blind_accuracy"] == pytest.approx(
        records[records["level"] == 0]["blind_accuracy"].mean()
    )
    assert metrics["vqa/accuracy_low"] <= metrics["vqa/accuracy"] <= metrics["vqa/accuracy_high"]
    assert (compared / "robustness.png").stat().st_size > 1000
    assert "data:image/jpeg" in (runs[0] / "robustness.html").read_text()
    assert "Vanilla VQA changes" in (compared / "robustness.html").read_text()

    for level in (0, 1, 7):
        own = records[records["level"] == level]
        cut = (own["question"].str.split().str.len() > 26).mean()
        assert metrics[f"robustness/partition_{level}/truncated"] == pytest.approx(cut)
        assert differences[f"first/partition_{level}/truncated"] == pytest.approx(cut)
    assert "cut questions, the language-only model" in table

    copy = shutil.copytree(runs[0], tmp_path / "copy")
    three = [f"compare=[{runs[0]},{runs[1]},{copy}]", f"output_dir={tmp_path / 'three'}"]
    status, printed = run("evaluate", *three)
    assert status == 0, printed
    figures = metrics_of(tmp_path / "three")
    key = "partition_1/accuracy_difference"
    assert figures[f"compare/{key}"] == pytest.approx(differences[f"compare/{key}"])
    assert figures[f"compare_third/{key}"] == 0
    status, printed = run("evaluate", f"compare=[{','.join([str(runs[0])] * 5)}]")
    assert (status, "two to four run directories, not 5" in printed) == (1, True), printed


def test_the_papers_accuracy_and_a_run_that_cuts_no_question(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    """With a limit of more words than a question and three basic questions have."""
    command = _command(tiny_root, "model=language_only", "callbacks=robustness", "noise.levels=2")
    command += ["r_score.accuracy=paper", "max_question_length=100"]
    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'paper'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "paper")
    level = "robustness/partition_"
    assert [metrics[f"{level}{number}/truncated"] for number in range(3)] == [0, 0, 0]
    # The benchmark has both accuracies of the same answers.
    assert metrics[f"{level}0/accuracy"] == pytest.approx(metrics["vqa/accuracy_shortcut"])
    assert "accuracy under noise: accuracy min(n / 3, 1) of the papers" in printed
    # Given answers are scored with it, too; runs of two accuracies are not compared.
    known = json.loads((tiny_root / "annotations_val.json").read_text())["annotations"]
    results = [
        {"question_id": one["question_id"], "answer": Counter(texts).most_common()[-1][0]}
        for one in known
        for texts in [[answer["answer"] for answer in one["answers"]]]
    ]
    (tmp_path / "rare.json").write_text(json.dumps(results))
    given = [
        f"predictions=[{','.join([str(tmp_path / 'rare.json')] * 3)}]",
        "r_score.accuracy=paper",
    ]
    given += ["data=vqa_json", f"data.root={tiny_root}", f"output_dir={tmp_path / 'given'}"]
    status, printed = run("evaluate", *given)
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "given")
    assert metrics[f"{level}1/accuracy"] == pytest.approx(metrics["vqa/accuracy_shortcut"])
    assert metrics["vqa/accuracy_shortcut"] > metrics["vqa/accuracy"]
    both = f"compare=[{tmp_path / 'paper'},{tmp_path / 'given'}]"
    status, printed = run("evaluate", both)
    assert status == 1
    assert "scored with r_score.accuracy=paper, not official" in printed.replace("\n", " ")
    status, printed = run(
        "evaluate", both, "r_score.accuracy=paper", f"output_dir={tmp_path / 'b'}"
    )
    assert status == 0, printed
    assert (
        "\nAccuracy min(n / 3, 1) of the papers. R_score" in (tmp_path / "b/table.md").read_text()
    )


def test_result_files_of_other_systems_are_compared_too(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    questions = json.loads((tiny_root / "questions_val.json").read_text())["questions"]
    for answer in ("yes", "no"):
        results = [{"question_id": q["question_id"], "answer": answer} for q in questions]
        (tmp_path / f"{answer}.json").write_text(json.dumps(results))
        data = ["data=vqa_json", f"data.root={tiny_root}", f"output_dir={tmp_path / answer}"]
        assert run("evaluate", f"predictions={tmp_path / answer}.json", *data)[0] == 0
    compare = f"compare=[{tmp_path / 'yes'},{tmp_path / 'no'}]"
    status, printed = run("evaluate", compare, f"output_dir={tmp_path / 'compared'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "compared")
    assert metrics["compare/partition_0/only_first"] > 0
    assert metrics["compare/partition_0/only_second"] > 0
    assert run("evaluate", f"compare=[{tmp_path}]")[0] == 1
    status, printed = run("evaluate", f"compare=[{tmp_path},{tmp_path}]")
    assert status == 1
    assert "has no robustness.parquet; evaluate the model with callbacks=robustness" in printed


def test_a_model_trains_on_noisy_questions_and_is_another_model(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    store = f"artifacts={tmp_path / 'artifacts'}"
    command = _command(tiny_root, "model=language_only", store)
    noisy = [*command, "augment=basic_questions", "augment.noise.levels=3"]
    for overrides, trained in ((command, True), (noisy, True), (noisy, False)):
        status, printed = run("evaluate", *overrides)
        assert status == 0, printed
        assert ("No trained language_only" in printed) == trained
    identities = (tmp_path / "artifacts" / "models").glob("*/identity.json")
    chosen = [json.loads(file.read_text())["model"].get("augment") for file in identities]
    assert sum(not augment for augment in chosen) == 1
    (augment,) = filter(None, chosen)
    assert augment["noise"]["levels"] == 3
    assert str(tmp_path) not in json.dumps(
        augment
    )  # the folder of the rankings is not part of the identity
    status, printed = run("evaluate", "model=ivqa_vae", "augment=basic_questions", store)
    assert status == 1
    assert "augment= is for VQA models that ivqa trains" in printed


@pytest.mark.parametrize("noise", ["image_occlusion", "joint"])
def test_images_are_disturbed_by_noise_of_images(
    noise: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = _command(tiny_root, "model=vanilla", "callbacks=robustness", f"noise={noise}")
    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert "robustness/partition_7/accuracy" in metrics
    assert ("robustness/gap" in metrics) == (noise == "joint")
    data = ["data=vqa_json", f"data.root={tiny_root}", f"noise={noise}"]
    status, printed = run("evaluate", *data, "write_noisy_questions=true")
    assert status == 1
    assert "this noise= disturbs images" in printed


def test_a_model_is_asked_in_other_words(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = _command(tiny_root, "model=language_only", "callbacks=robustness", "noise=rephrasing")
    status, printed = run("evaluate", *command, "split=val", f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    metrics, records = metrics_of(tmp_path / "run"), tmp_path / "run" / "robustness.parquet"
    asked = pd.read_parquet(records).pivot(index="question_id", columns="level", values="question")
    assert metrics["robustness/not_rephrased"] == (asked[3] == asked[0]).sum() < len(asked) / 10
    distances = [metrics[f"robustness/word_edits_{level}"] for level in (1, 2, 3)]
    assert 0 < distances[0] < distances[1] < distances[2]
    (tmp_path / "empty.json").write_text('{"Why is it so?": ["How come?"]}')
    status, printed = run("evaluate", *command, f"noise.path={tmp_path / 'empty.json'}")
    assert (status, "has another wording in" in printed) == (1, True), printed
