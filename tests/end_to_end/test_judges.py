"""Other VQA models type the beliefs of diagnose.py, and labels of people give intervals."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data import VQADataset
from ivqa.diagnosis import drawn_for_labels, read_beliefs
from ivqa.diagnosis.beliefs.labelling import doubts
from ivqa.metrics import prediction_powered
from ivqa.scenes import oracle_of

from .conftest import TINY_DIAGNOSIS, Run, metrics_of

JUDGES = [
    "judge=[vanilla,language_only]",
    "judge.vanilla.epochs=10",
    "judge.vanilla.batch_size=8",
    "judge.language_only.epochs=1",
    "num_images=10",
    "pool=top",
]


def _items(page: Path) -> list[dict[str, Any]]:
    """The questions of annotate.html, in order."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())
    assert data is not None
    items: list[dict[str, Any]] = json.loads(data.group(1))["items"]
    return items


def test_judges_type_and_people_correct_their_shares(
    run: Run, tiny_root: Path, tmp_path: Path, known_questions: None
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "vqa=mlb", "callbacks=default"]
    first = tmp_path / "run"
    status, printed = run("diagnose", *data, *TINY_DIAGNOSIS, *JUDGES, f"output_dir={first}")
    assert status == 0, printed
    beliefs = read_beliefs(first / "beliefs.jsonl")
    assert {belief.type_by for belief in beliefs} == {"judge"}
    metrics = metrics_of(first)
    assert metrics["beliefs/incorrect"] == pytest.approx(
        np.mean([belief.type in ("adversarial", "irrelevant") for belief in beliefs])
    )
    oracle = oracle_of(VQADataset(tiny_root, test=None), "val")
    assert oracle is not None
    truth = [oracle.judge(belief.image_id, belief.question) for belief in beliefs]
    wrong = np.array(
        [belief.answer not in one.acceptable for belief, one in zip(beliefs, truth, strict=True)]
    )
    understood = np.array([one.understood for one in truth])
    assert metrics["beliefs/understood"] == pytest.approx(understood.mean())
    judged = np.array([belief.type in ("adversarial", "irrelevant") for belief in beliefs])
    assert metrics["judge/wrong"] == pytest.approx((judged == wrong)[understood].mean())
    assert {"judge/agreement", "judge/kappa"} <= set(metrics)
    assert 0 < metrics["judge/vanilla/main_answer"] < 1
    assert "judge/language_only/main_answer" in metrics

    assert metrics["challenge/questions"] == 0  # a judge does not know the right answers

    # A person labels the first twelve that the page asks about.
    items = _items(first / "annotate.html")
    drawn = drawn_for_labels(beliefs)
    assert [item["question"] for item in items] == [beliefs[row].question for row, _ in drawn]
    assert [item["weight"] for item in items] == [weight for _, weight in drawn]
    row_of = {(one.image_id, one.answer, one.question): at for at, one in enumerate(beliefs)}
    rows, records = [], []
    for item in items[:12]:
        key = {"image_id": item["image"], "answer": item["answer"], "question": item["question"]}
        rows.append(row_of[item["image"], item["answer"], item["question"]])
        right = not wrong[rows[-1]]
        given = {"relevant": True, "same_fact": False, "correct": bool(right)}
        # Of so few beliefs the page asks about all alike; the weights of a long list differ.
        records.append({**key, **given, "weight": 1.0 + len(records) % 3})
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(records))
    status, printed = run("diagnose", f"resume={first}", f"annotations={file}")
    assert status == 0, printed
    assert "No trained" not in printed
    found = metrics_of(first)
    weights = [record["weight"] for record in records]
    guess = doubts(beliefs)
    expected = prediction_powered(wrong[rows], guess[rows], guess, weights)
    for end, value in (("", expected.estimate), ("_low", expected.low), ("_high", expected.high)):
        assert found[f"beliefs/incorrect_ppi{end}"] == pytest.approx(value)
    assert found["beliefs/incorrect"] == pytest.approx(np.average(wrong[rows], weights=weights))
    assert found["beliefs/labels"] == 12
    assert f"labels of 12 beliefs, {expected.estimate:.0%} of all beliefs are wrong" in " ".join(
        printed.split()
    )
    assert _items(first / "annotate.html") == items


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ("mlbb", "there is no judge=mlbb; did you mean mlb"),
        ("ivqa_vae", "judge=ivqa_vae answers no questions; choose a VQA model"),
        ("[n2nmn,mlb]", "judge=mlb is the model whose beliefs are judged"),
        ("hf_blip", "measuring_models.parts.hf_blip.path must be set to a folder"),
    ],
)
def test_a_wrong_judge_is_one_sentence_before_any_work(
    judge: str, message: str, run: Run, tmp_path: Path
) -> None:
    there = f"output_dir={tmp_path / 'run'}"
    status, printed = run("diagnose", "vqa=mlb", f"judge={judge}", there)
    assert (status, printed.count("\n")) == (1, 1)
    assert message in printed
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_only_the_command_line_chooses_a_judge(run: Run, tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_text("# @package _global_\njudge: n2nmn\n")
    status, printed = run("diagnose", "--config-dir", str(tmp_path), "experiment=own")
    assert status == 1
    assert "judge=n2nmn: only the command line can choose a judge" in printed
