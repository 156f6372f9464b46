"""experiment=repair, from the command line to its table."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from ivqa.data import VQADataset
from ivqa.diagnosis import NO_SUCH_THING, read_beliefs
from ivqa.scenes import oracle_of

from .conftest import TINY_FEATURES, Run, metrics_of

TINY_REPAIR = [
    "model.parts.questioner.epochs=1",
    "model.parts.legality_model.epochs=1",
    "vqa.epochs=2",
    "vqa.batch_size=16",
    "num_images=5",
    "num_latents=8",
    "legality=0",
    "num_noisy_questions=20",
    "repair.num_images=15",
    "repair.num_latents=8",
    "repair.val_images=5",
    "repair.rounds=2",
    "repair.right_beliefs=0.08",
    "split=val",
]


pytestmark = pytest.mark.usefixtures("known_questions")


def _command(root: Path, *overrides: str) -> list[str]:
    data = ["data=vqa_json", f"data.root={root}"]
    return ["experiment=repair", "vqa=vanilla", *data, *TINY_FEATURES, *TINY_REPAIR, *overrides]


def _beliefs(run_dir: Path, name: str) -> Path:
    """The only file of beliefs with a name; a digest of their settings follows it."""
    (file,) = (run_dir / "beliefs").glob(f"{name}_*.jsonl")
    return file


def test_a_model_is_repaired_and_the_repair_resumes(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    status, printed = run("diagnose", *_command(tiny_root, f"output_dir={first}"))
    assert status == 0, printed
    metrics = metrics_of(first)
    names = {"before", "round_1", "repaired", "ordinary", "noisy"}
    assert names <= {key.partition("/")[0] for key in metrics}
    for name in names:
        assert {f"{name}/{key}" for key in ("wrong_rate", "accuracy", "r_score")} <= set(metrics)
    added = metrics["repaired/added_questions"]
    assert added == metrics["ordinary/added_questions"] == metrics["noisy/added_questions"] > 0
    assert metrics["before/added_questions"] == 0
    # The added questions are the wrong beliefs with right answers, 0.08 right ones for
    # each of them, and 0.3 ordinary questions about the same images for each of both.
    train = VQADataset(tiny_root).split("train")
    split = VQADataset(first / "added", train="round_1", val=None).split("train")
    oracle = oracle_of(VQADataset(tiny_root), "train")
    assert oracle is not None
    beliefs = read_beliefs(_beliefs(first, "before_corrected"))
    wrong, right = (
        {(one.image_id, one.question) for one in beliefs if one.type in kinds}
        for kinds in (("adversarial", "irrelevant"), ("rephrase", "complementary"))
    )
    asked = list(zip(split.image_ids.tolist(), split.questions, strict=True))
    kept = min(len(right - wrong), int(0.08 * len(wrong)))
    assert kept
    believed, ordinary = asked[: len(wrong) + kept], asked[len(wrong) + kept :]
    assert len(set(believed)) == len(believed)
    assert set(believed) >= wrong
    assert set(believed) - wrong <= right
    assert len(ordinary) == int(0.3 * len(believed))
    assert {image_id for image_id, _ in ordinary} <= {image_id for image_id, _ in believed}
    assert {image_id for image_id, _ in asked} <= set(train.image_ids.tolist())
    for (image_id, question), answer in zip(asked, split.main_answers, strict=True):
        judged = oracle.judge(image_id, question)
        assert answer == (judged.answer if judged.premise else NO_SUCH_THING)
    assert all(oracle.judge(*one).premise for one in ordinary)
    table = pd.read_csv(first / "table.csv")
    assert table["model"].iloc[0].startswith("before")
    assert list(table["model"])[-2:] == ["ordinary", "noisy"]
    # A repair that was killed continues: the models are stored, beliefs are searched once.
    (first / "metrics.json").unlink()
    _beliefs(first, "ordinary_reported").unlink()
    status, printed = run("diagnose", f"resume={first}")
    assert status == 0, printed
    assert "No trained" not in printed
    assert "ordinary: searching beliefs" in printed
    assert "before: searching beliefs" not in printed
    assert metrics_of(first) == pytest.approx(metrics)
    # Beliefs of other settings in the same directory are not taken for those of this run.
    status, printed = run("diagnose", *_command(tiny_root, f"output_dir={first}", "num_latents=2"))
    assert status == 0, printed
    assert "before: searching beliefs" in printed
    assert metrics_of(first)["before/per_pair"] < metrics["before/per_pair"]


@pytest.mark.slow
def test_a_policy_asks_each_model(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    policy = ["repair.policy=true", "model.epochs=1", "model.epoch_steps=2", "repair.rounds=1"]
    small = ["callbacks=default", "repair.irrelevant=leave_out", f"output_dir={tmp_path / 'run'}"]
    status, printed = run("diagnose", *_command(tiny_root, *policy, *small))
    assert status == 0, printed
    assert printed.count("No trained ivqa_rl") >= 2  # one for the model before, one for round 1
    metrics = metrics_of(tmp_path / "run")
    assert "before/r_score" not in metrics
    assert not any(key.startswith("noisy/") for key in metrics)
    lines = _beliefs(tmp_path / "run", "before_reported").read_text().splitlines()
    assert {json.loads(line)["source"] for line in lines} <= {"supervised", "rl"}
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["repair"]["irrelevant"] == "leave_out"
    # Without controls, the models of the rounds and their figures are the same.
    alone = [*small[:-1], "repair.controls=false", f"output_dir={tmp_path / 'alone'}"]
    status, printed = run("diagnose", *_command(tiny_root, *policy, *alone))
    assert status == 0, printed
    assert (
        metrics_of(tmp_path / "alone")
        == {key: value for key, value in metrics.items() if not key.startswith("ordinary/")}
        != metrics
    )


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["model.part_ckpt.answerer=FILE"], "leave model.part_ckpt.answerer=auto"),
        (["repair.irrelevant=maybe"], "repair.irrelevant=maybe: must be"),
        (["repair.rounds=0"], "repair.rounds=0: must be"),
        (["data.train=val"], "split 'val' serves as train and val"),
    ],
)
def test_what_cannot_be_repaired_is_said_first(
    overrides: list[str], problem: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_text("x")
    overrides = [item.replace("FILE", str(tmp_path / "checkpoint")) for item in overrides]
    status, printed = run("diagnose", *_command(tiny_root, *overrides))
    assert status == 1
    assert problem in printed
    assert "training it first" not in printed
