"""callbacks=consistency, and consistency of result files, as a user runs them."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from ivqa.consistency import ConsistencyCallback

from .conftest import TINY_FEATURES, Run, metrics_of

# What a suspicion rests on includes the confidences, which result files do not have.
BY_CONFIDENCE = ("consistency/error_estimate", "consistency/suspects")


def _data(root: Path) -> list[str]:
    splits = ["data.test=val"]
    if (root / "questions_bare.json").exists():
        splits = ["data.val=train", "data.test=bare"]
    return ["data=vqa_json", f"data.root={root}", *splits]


def _vanilla(root: Path) -> list[str]:
    return ["model=vanilla", *_data(root), *TINY_FEATURES, "model.epochs=15"]


def _consistency(folder: Path) -> dict[str, float]:
    figures = metrics_of(folder).items()
    return {name: value for name, value in figures if name.startswith("consistency/")}


@pytest.mark.parametrize("annotations", [True, False])
def test_result_files_give_the_figures_of_the_callback(
    annotations: bool, run: Run, root: Path, tmp_path: Path
) -> None:
    if not annotations:
        for file in ("questions_val.json", "images/val"):
            (root / file).rename(root / file.replace("val", "bare"))
        for file in root.glob("*_val.json"):
            file.unlink()
    command = [*_vanilla(root), f"output_dir={tmp_path / 'run'}"]
    status, printed = run("evaluate", *command, "callbacks=consistency")
    assert status == 0, printed
    figures = _consistency(tmp_path / "run")
    assert figures["consistency/questions"] == 30
    assert figures["consistency/asked"] > 0
    assert ("consistency/error" in figures) == annotations
    assert "answers that follow from other answers" in printed
    assert "Vanilla VQA answers" in printed
    lines = (tmp_path / "run" / "implications.jsonl").read_text().splitlines()
    assert len(lines) == figures["consistency/implied"]
    rate = sum(json.loads(line)["consistent"] for line in lines) / len(lines)
    assert figures["consistency/rate"] == pytest.approx(rate)
    assert (tmp_path / "run" / "consistency.html").stat().st_size > 1000

    answers = tmp_path / "run" / "predictions.json"
    files = [f"predictions={answers}", *_data(root)]
    status, printed = run(
        "evaluate", *files, "write_implications=true", f"output_dir={tmp_path / 'written'}"
    )
    assert status == 0, printed
    assert f"{figures['consistency/asked']:,.0f} questions that follow, about" in printed
    implied = tmp_path / "written" / "implied"
    other = [f"questions={implied}", "questions_split=implied"]
    status, printed = run("evaluate", *command, *other, f"output_dir={tmp_path / 'asked'}")
    assert status == 0, printed
    given = tmp_path / "asked" / "predictions.json"
    files[0] = f"predictions=[{answers},{given}]"
    status, printed = run("evaluate", *files, f"output_dir={tmp_path / 'scored'}")
    assert status == 0, printed
    scored = _consistency(tmp_path / "scored")
    assert scored.keys() == figures.keys()
    same = [name for name in figures if not name.startswith(BY_CONFIDENCE)]
    assert {name: scored[name] for name in same} == pytest.approx(
        {name: figures[name] for name in same}, rel=1e-5
    )
    assert (tmp_path / "scored" / "consistency.html").exists()

    # Every exporter reads the implied questions.
    for tool in ("vlmevalkit", "lmms_eval", "datasets"):
        data = ["data=vqa_json", f"data.root={implied}", "data.test=implied"]
        status, printed = run("evaluate", f"export={tool}", *data, f"output_dir={tmp_path / tool}")
        assert status == 0, printed


def test_answers_to_other_questions_are_refused(run: Run, root: Path, tmp_path: Path) -> None:
    questions = json.loads((root / "questions_val.json").read_text())["questions"]
    own = [{"question_id": one["question_id"], "answer": "yes"} for one in questions]
    (tmp_path / "own.json").write_text(json.dumps(own))
    for name in ("strange", "second"):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"question_id": 5, "answer": "yes"}]))

    def refused(*files: str, more: str = "seed=1") -> str:
        paths = ",".join(str(tmp_path / f"{name}.json") for name in files)
        status, printed = run("evaluate", f"predictions=[{paths}]", *_data(root), more)
        assert status == 1
        assert "Traceback" not in printed
        return " ".join(printed.split())

    said = refused("own", "strange")
    assert "strange.json: none of its questions is in split 'val' or follows from" in said
    assert "write them again with write_implications=true" in said

    # The implied questions in two rounds: the second file answers those of the first.
    files, rounds = [str(tmp_path / "own.json")], ["consistency.rounds=2"]
    for number in (1, 2):
        folder = tmp_path / f"round_{number}"
        more = ["write_implications=true", *rounds, f"output_dir={folder}"]
        status, printed = run("evaluate", f"predictions=[{','.join(files)}]", *_data(root), *more)
        assert status == 0, printed
        content = json.loads((folder / "implied" / "questions_implied.json").read_text())
        given = [
            {"question_id": one["question_id"], "answer": "yes"} for one in content["questions"]
        ]
        (tmp_path / f"given_{number}.json").write_text(json.dumps(given))
        files.append(str(tmp_path / f"given_{number}.json"))
    said = refused("own", "given_1", "given_2", more="consistency.rounds=1")
    assert "given_2.json is one file too many" in said
    said = refused("own", "given_1", more="write_implications=true")
    assert "after 1 rounds no question is left to ask" in said
    status, printed = run("evaluate", f"predictions=[{','.join(files)}]", *_data(root), *rounds)
    assert status == 0, printed
    assert "answers that follow from other answers" in printed


def test_consistency_is_watched_in_training_and_does_not_change_it(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*_vanilla(tiny_root), "model.epochs=2", "+trainer.deterministic=true"]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'plain'}")
    assert status == 0, printed
    watching = [
        *("callbacks=consistency", "callbacks.consistency.every_n_epochs=1"),
        *("callbacks.consistency.num_images=5", "callbacks.consistency.resamples=100"),
        *("model.monitor=consistency/errors_at_least", "model.monitor_mode=min"),
    ]
    status, printed = run("train", *command, *watching, f"output_dir={tmp_path / 'watched'}")
    assert status == 0, printed
    plain, watched = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for name in ("plain", "watched")
    )
    assert all(torch.equal(plain[key], watched[key]) for key in plain)
    log = pd.read_csv(tmp_path / "watched" / "metrics.csv")
    assert ConsistencyCallback.validation_metrics({"every_n_epochs": 1}) <= set(log.columns)
    assert log["consistency/coverage"].notna().sum() == 2  # once an epoch
    assert metrics_of(tmp_path / "watched")["consistency/images"] == 5
