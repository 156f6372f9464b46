"""train.py and evaluate.py, from the command line to their output files."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import OmegaConf

from .conftest import (
    PROJECT,
    TINY,
    TINY_BENCHMARK,
    TINY_DIAGNOSIS,
    TINY_FEATURES,
    Run,
    metrics_of,
    start,
)


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}"]


@pytest.mark.parametrize(
    "model", ["ivqa_vae", "ivqa_answer_only", "ivqa_image_only", "ivqa_attention"]
)
def test_evaluate_trains_what_it_needs_and_reuses_it(
    model: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    # Its own store: another test may have trained the same model in the shared one.
    store = f"artifacts={tmp_path / 'artifacts'}"
    command = [f"model={model}", *_data(tiny_root), *TINY, *TINY_BENCHMARK, store]
    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'first'}")
    assert status == 0, printed
    assert f"No trained {model}" in printed
    assert "questions.html" in printed
    metrics = metrics_of(tmp_path / "first")
    expected = {"cider", "bleu4", "rouge_l", "meteor", "unique_of_3", "unique_of_100", "novel"}
    expected |= {"best/consistent", "samples/understood", "test/perplexity"}
    assert expected <= set(metrics)
    assert all(isinstance(value, float) for value in metrics.values())
    lines = (tmp_path / "first" / "questions.jsonl").read_text().splitlines()
    assert len(lines) == 30
    assert len(json.loads(lines[0])["samples"]) == 3
    assert (tmp_path / "first" / "questions.png").stat().st_size > 1000

    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'second'}")
    assert status == 0, printed
    assert "No trained" not in printed
    assert metrics_of(tmp_path / "second") == metrics


@pytest.mark.parametrize("model", ["prior", "language_only", "vanilla", "mlb", "n2nmn"])
def test_a_vqa_model_is_trained_and_its_answers_can_be_scored_again(
    model: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [f"model={model}", *_data(tiny_root), *TINY_FEATURES, "model.epochs=1"]
    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'first'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "first")
    assert metrics.pop("vqa/questions_per_second") > 0
    scores = {name: value for name, value in metrics.items() if name.startswith("vqa/")}
    assert scores.pop("vqa/truncated") == 0
    expert = [name for name in scores if name.startswith(("vqa/expert/", "vqa/layouts"))]
    assert bool(expert) == (model == "n2nmn")
    assert all(0 <= scores.pop(name) <= 1 for name in expert)
    assert metrics["train/seconds"] > 0
    assert scores.keys() >= {"vqa/accuracy", "vqa/yes_no", "vqa/number", "vqa/other"}
    assert scores.keys() >= {"vqa/accuracy_2015", "vqa/kind/exist"}
    assert "vqa/question_type" not in printed
    # The accuracy is the same for answers as indices and as text.
    assert metrics["test/vqa_accuracy"] == pytest.approx(scores["vqa/accuracy"])

    file = tmp_path / "first" / "predictions.json"
    scored = [f"predictions={file}", *_data(tiny_root)]
    status, printed = run("evaluate", *scored, f"output_dir={tmp_path / 'second'}")
    assert status == 0, printed
    assert metrics_of(tmp_path / "second") == scores
    results = json.loads(file.read_text())
    file.write_text(json.dumps([*results[1:], {"question_id": 5, "answer": "yes"}]))
    status, printed = run("evaluate", *scored)
    assert status == 1
    assert f"question {results[0]['question_id']}: of 'val' has no answer" in printed
    assert "question 5: question_id: is not in split 'val'" in printed


def _write_model_of_the_documentation(folder: Path) -> None:
    page = (PROJECT / "docs" / "vqa_models.md").read_text()
    (folder / "my_models.py").write_text(page.split("```python\n")[1].split("```")[0])
    (folder / "my_conf" / "model").mkdir(parents=True)
    config = page.split("```yaml\n")[1].split("```")[0]
    (folder / "my_conf" / "model" / "bag_of_words.yaml").write_text(config)


def test_the_model_of_the_documentation_trains_from_outside_the_package(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_model_of_the_documentation(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    conf = ["--config-dir", str(tmp_path / "my_conf"), "model=bag_of_words"]
    command = [*conf, *_data(tiny_root), *TINY_FEATURES, "model.epochs=30", "model.batch_size=16"]
    status, printed = run("train", *command)
    assert status == 0, printed
    status, printed = run("evaluate", *command, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert "No trained" not in printed
    assert metrics_of(tmp_path / "run")["vqa/accuracy"] > 0.2
    noisy = [*command, "callbacks=robustness", f"output_dir={tmp_path / 'noisy'}"]
    assert run("evaluate", *noisy)[0] == 0
    assert "robustness/r_score" in metrics_of(tmp_path / "noisy")

    conf = [*conf[:2], "vqa=bag_of_words", "callbacks=default", *_data(tiny_root)]
    diagnosed = f"output_dir={tmp_path / 'diagnosed'}"
    status, printed = run("diagnose", *conf, *TINY_DIAGNOSIS, "num_latents=100", diagnosed)
    assert status == 0, printed
    assert "beliefs/count" in metrics_of(tmp_path / "diagnosed")


def test_train_writes_a_run_and_feeds_the_store(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = ["model=ivqa_answer_only", *_data(tiny_root), *TINY, "seed=5"]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    folder = tmp_path / "run"
    for name in ("config.yaml", "metrics.json", "metrics.csv", "checkpoints/best.ckpt"):
        assert (folder / name).is_file(), name
    assert {"val/loss", "train/seconds", "model/parameters"} <= set(metrics_of(folder))
    for name in ("best", "last"):
        torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)
    status, printed = run("evaluate", *command, *TINY_BENCHMARK)
    assert status == 0, printed
    assert "No trained" not in printed
    best = folder / "checkpoints" / "best.ckpt"
    status, printed = run("evaluate", *command, *TINY_BENCHMARK, f"ckpt={best}")
    assert status == 0, printed
    assert str(best.name) in printed


def test_a_multirun_ends_with_one_table(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    status, printed = run(
        "evaluate",
        "-m",
        "model=ivqa_answer_only,ivqa_image_only",
        "seed=1,2",
        f"output_dir={sweep}",
        *_data(tiny_root),
        *TINY,
        *TINY_BENCHMARK,
    )
    assert status == 0, printed
    assert "4 of 4 runs" in printed
    table = (sweep / "table.md").read_text()
    assert table.count("\n") == 4
    assert "±" in table
    assert len(json.loads((sweep / "results.json").read_text())) == 4


def test_wandb_works_offline(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    command = ["model=ivqa_answer_only", *_data(tiny_root), *TINY, "logger=wandb"]
    status, printed = run("train", *command, "model.epochs=1", f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert len((tmp_path / "run" / "wandb_id.txt").read_text()) == 8
    assert (tmp_path / "run" / "metrics.csv").is_file()


def test_a_killed_run_resumes_to_the_same_bits(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    command = ["model=ivqa_vae", *_data(tiny_root), *TINY, "model.epochs=16", "features=concepts"]
    # Compute the features first, so that both runs load them from the store.
    status, printed = run("train", *command, "output_dir=whole")
    assert status == 0, printed
    killed = start("train", *command, "output_dir=killed", cwd=tmp_path, artifacts=artifacts)
    last = tmp_path / "killed" / "checkpoints" / "last.ckpt"
    while not last.is_file() and killed.poll() is None:
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    assert torch.load(last, weights_only=True)["epoch"] < 15
    status, printed = run("train", "resume=killed")
    assert status == 0, printed
    states = [
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "killed")
    ]
    assert states[0]["global_step"] == states[1]["global_step"]
    for key, value in states[0]["state_dict"].items():
        assert torch.equal(value, states[1]["state_dict"][key]), key
    csv = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "killed")]
    assert csv[0] == csv[1]


def test_a_killed_run_of_an_own_model_resumes(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_model_of_the_documentation(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    conf = ["--config-dir", "my_conf"]
    command = ["model=bag_of_words", *_data(tiny_root), *TINY_FEATURES, "model.batch_size=16"]
    long = [*conf, *command, "model.epochs=1000", "output_dir=killed"]
    killed = start("train", *long, cwd=tmp_path, artifacts=artifacts)
    last = tmp_path / "killed" / "checkpoints" / "last.ckpt"
    while not last.is_file() and killed.poll() is None:
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    before = torch.load(last, weights_only=True)["global_step"]
    shorter = ["resume=killed", "trainer.max_epochs=50"]
    for arguments in (
        [*conf, *shorter, "trust=[my_models]"],
        [*shorter, "--config-dir=my_conf"],
        [shorter[0], "-cd", "my_conf", shorter[1]],
    ):
        status, printed = run("train", *arguments)
        assert status == 0, printed
        assert torch.load(last, weights_only=True)["global_step"] >= before
    status, printed = run("train", *shorter)
    assert status == 1
    assert "bag_of_words" in printed


@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_a_signal_ends_a_training_with_a_sentence_and_its_status(
    number: int, status: int, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    command = ["model=prior", *_data(tiny_root), "features=none", "trainer.max_epochs=100000"]
    process = start("train", *command, "output_dir=run", cwd=tmp_path, artifacts=artifacts)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    while not last.is_file() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    try:
        printed = process.communicate(timeout=120)[0]
    finally:
        process.kill()
    assert process.returncode == status, printed
    assert "interrupted; written files are kept, and resume=DIR continues" in printed
    assert "Traceback" not in printed


def test_a_resumed_run_must_keep_its_settings(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = ["model=ivqa_answer_only", *_data(tiny_root), *TINY]
    assert run("train", *command, f"output_dir={tmp_path / 'run'}")[0] == 0
    status, printed = run("train", f"resume={tmp_path / 'run'}", "model.epochs=4")
    assert status == 1
    assert "'model' was" in printed
    status, printed = run("train", f"resume={tmp_path / 'run'}", "trainer.max_epochs=4")
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["train/epochs"] == 4


@pytest.mark.parametrize("model", ["ivqa_vae", "ivqa_image_only", "prior", "skip_thoughts"])
def test_a_module_declares_the_metrics_that_it_logs(
    model: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    """The declared metrics are the valid values of model.monitor."""
    choices = [f"model={model}", "data=vqa_json", f"data.root={tiny_root}"]
    overrides = [*choices, *TINY_FEATURES, "model.epochs=1", f"output_dir={tmp_path / 'run'}"]
    status, printed = run("train", *overrides)
    assert status == 0, printed
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        node = OmegaConf.to_container(compose("train", choices).model.module)
    assert isinstance(node, dict)
    declared = get_class(node["_target_"]).validation_metrics(node)
    logged = {name for name in metrics_of(tmp_path / "run") if name.startswith("val/")}
    assert logged == declared


@pytest.mark.parametrize("targets", ["annotators", "accuracies"])
def test_the_targets_of_a_vqa_model_are_a_setting(
    targets: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    choices = ["model=language_only", "data=vqa_json", f"data.root={tiny_root}", "model.epochs=1"]
    output = f"output_dir={tmp_path / 'run'}"
    status, printed = run("train", *choices, f"model.module.targets={targets}", output)
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["val/vqa_accuracy"] > 0
    status, printed = run("train", *choices, "model.module.targets=counts", output)
    assert status == 1
    assert "model.module.targets=counts: must be" in printed
    for known in ("main", "annotators", "accuracies"):
        assert known in printed
