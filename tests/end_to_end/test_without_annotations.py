"""The test sets of VQA have only questions: evaluation writes a result file and no accuracy."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import TINY_FEATURES, Run, metrics_of


@pytest.fixture
def unannotated(root: Path) -> Path:
    (root / "annotations_val.json").unlink()
    (root / "questions_val.json").rename(root / "questions_test-dev.json")
    (root / "images" / "val").rename(root / "images" / "test-dev")
    for file in (root / "captions_val.json", root / "layouts_val.json", root / "scenes_val.json"):
        file.unlink(missing_ok=True)
    file = root / "questions_test-dev.json"
    content = json.loads(file.read_text())
    for record in content["questions"]:
        record["multiple_choices"] = ["yes", "no", "2"]
    file.write_text(json.dumps(content))
    return root


def _command(root: Path, *overrides: str) -> list[str]:
    data = ["data=vqa_json", f"data.root={root}", "data.val=train", "data.test=test-dev"]
    return [*data, *TINY_FEATURES, *overrides]


def _answers(file: Path) -> dict[int, str]:
    records: list[dict[str, Any]] = json.loads(file.read_text())
    assert all(record.keys() == {"question_id", "answer"} for record in records)
    found = {record["question_id"]: record["answer"] for record in records}
    assert len(found) == len(records)  # every question once
    return found


def test_every_question_is_answered_for_the_server(
    run: Run, unannotated: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    command = _command(unannotated, "model=vanilla", "model.epochs=1", f"output_dir={output}")
    status, printed = run("evaluate", *command)
    assert status == 0, printed
    questions = json.loads((unannotated / "questions_test-dev.json").read_text())["questions"]
    asked = {record["question_id"] for record in questions}
    free, chosen = (
        _answers(output / f"predictions{task}.json") for task in ("", "_multiple_choice")
    )
    assert free.keys() == chosen.keys() == asked
    assert all(free.values())
    assert set(chosen.values()) <= {"yes", "no", "2"}
    metrics = metrics_of(output)
    assert metrics["vqa/questions_per_second"] > 0
    assert "vqa/multiple_choice_coverage" in metrics
    measured = ("accuracy", "yes_no", "number", "other", "question_type", "robustness", "choice")
    assert not [name for name in metrics if name.endswith(measured) or "question_type" in name]
    said = " ".join(printed.split())
    assert "split 'test-dev' has no annotations, so its accuracy is not known here" in said
    assert f"predictions.json answers all {len(asked)} questions" in said
    # Other questions without annotations are answered too.
    other = tmp_path / "other"
    command = _command(unannotated, "model=vanilla", "model.epochs=1", f"questions={unannotated}")
    status, printed = run("evaluate", *command, "questions_split=test-dev", f"output_dir={other}")
    assert status == 0, printed
    assert _answers(other / "predictions.json") == free
    assert metrics_of(other) == {"vqa/questions": len(asked), "vqa/images": 10}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["model=vanilla", "callbacks=robustness"], "callbacks=robustness measures accuracy"),
        (["model=ivqa_vae"], "split 'test-dev' has no annotations, so no model can be trained"),
        (["predictions=answers.json"], "split 'test-dev' has no annotations, so no model can be"),
    ],
)
def test_absent_annotations_are_reported_before_any_work(
    overrides: list[str], expected: str, run: Run, unannotated: Path, tmp_path: Path
) -> None:
    questions = json.loads((unannotated / "questions_test-dev.json").read_text())["questions"]
    answers = [{"question_id": one["question_id"], "answer": "yes"} for one in questions]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    store = tmp_path / "store"
    command = _command(unannotated, *overrides, f"artifacts={store}")
    if overrides[0].startswith("predictions="):  # this task has no image features
        command = [item for item in command if item not in TINY_FEATURES]
    status, printed = run("evaluate", *command)
    assert status == 1
    assert printed.count("error:") == 1
    assert expected in " ".join(printed.split())
    assert "Traceback" not in printed
    assert not (store / "models").exists()
    assert not (store / "features").exists()
