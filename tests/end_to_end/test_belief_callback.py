"""callbacks=beliefs in training and evaluation."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from ivqa.diagnosis import BeliefCallback

from .conftest import TINY_FEATURES, Run, metrics_of

TINY_PROBE = [
    "measuring_models.parts.questioner.epochs=1",
    "measuring_models.parts.legality_model.epochs=1",
    "callbacks.beliefs.num_images=5",
    "callbacks.beliefs.pool=top",  # an untrained model gives few of an image's own answers
    "callbacks.beliefs.num_latents=8",
    "callbacks.beliefs.legality=0",
]
MONITOR = ["model.monitor=beliefs/wrong_rate", "model.monitor_mode=min"]


def _command(root: Path, model: str = "vanilla") -> list[str]:
    return [
        f"model={model}",
        "data=vqa_json",
        f"data.root={root}",
        *TINY_FEATURES,
        "model.epochs=2",
    ]


@pytest.mark.usefixtures("known_questions")
def test_beliefs_are_watched_in_training_and_do_not_change_it(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*_command(tiny_root), "+trainer.deterministic=true"]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'plain'}")
    assert status == 0, printed
    watching = [*command, "callbacks=beliefs", *TINY_PROBE]
    status, printed = run("train", *watching, f"output_dir={tmp_path / 'watched'}")
    assert status == 0, printed
    assert "No trained ivqa_vae" in printed
    plain, watched = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for name in ("plain", "watched")
    )
    assert all(torch.equal(plain[key], watched[key]) for key in plain)
    log = pd.read_csv(tmp_path / "watched" / "metrics.csv")
    assert BeliefCallback.validation_metrics({}) <= set(log.columns)
    assert log["beliefs/per_pair"].notna().sum() == 2  # once an epoch
    metrics = metrics_of(tmp_path / "watched")
    assert 0 <= metrics["beliefs/wrong_rate"] <= 1
    assert metrics["beliefs/judged"] > 0
    # The stored model is evaluated on the same split: the probe asks the same again.
    status, printed = run(
        "evaluate", *watching, "split=val", f"output_dir={tmp_path / 'evaluated'}"
    )
    assert status == 0, printed
    assert "No trained" not in printed
    again = metrics_of(tmp_path / "evaluated")
    figures = {name for name in metrics if name.startswith("beliefs/")}
    assert len(figures) > 5
    assert {name: again[name] for name in figures} == pytest.approx(
        {name: metrics[name] for name in figures}, abs=1e-5
    )


@pytest.mark.usefixtures("known_questions")
def test_a_text_model_is_probed_with_features_of_the_generator(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*_command(tiny_root, "language_only"), "callbacks=beliefs", *TINY_PROBE]
    status, printed = run("train", *command, *MONITOR, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["beliefs/judged"] > 0
    textual = [item for item in command if item not in TINY_FEATURES]
    status, printed = run("train", *textual, "features=none")
    assert status == 1
    assert "model=ivqa_vae reads the image features ['concepts'], but features=none" in printed
    status, printed = run("train", *_command(tiny_root), *MONITOR)
    assert status == 1
    assert "beliefs/wrong_rate: vanilla does not log it" in printed


def test_no_belief_in_questions_that_nobody_understands_is_wrong(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    # The generator is hardly trained.
    command = [*_command(tiny_root, "language_only"), "callbacks=beliefs", *TINY_PROBE]
    status, printed = run("train", *command, *MONITOR, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["beliefs/judged"] == 0
    assert "beliefs/wrong_rate" not in metrics_of(tmp_path / "run")


def test_a_generator_is_trained_without_a_probe(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = [*_command(tiny_root, "ivqa_answer_only"), "callbacks=beliefs"]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert "training it first" not in printed
    assert not any(name.startswith("beliefs/") for name in metrics_of(tmp_path / "run"))
