"""W&B, TensorBoard and MLflow receive what metrics.json and config.yaml hold; the real packages."""

from pathlib import Path

import pytest
import torch
import wandb
import yaml
from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from wandb_files import OfflineRun, read_run

from .conftest import TINY, Run, metrics_of


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def _runs(folder: Path) -> list[OfflineRun]:
    return [read_run(file) for file in sorted(folder.rglob("*.wandb"))]


def _command(tiny_root: Path) -> list[str]:
    return [f"data.root={tiny_root}", "data=vqa_json", "data.test=val"]


@pytest.mark.usefixtures("_offline")
def test_all_trackers_have_the_figures_of_metrics_json(
    run: Run,
    tiny_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    folder = tmp_path / "run"
    store = f"file:{tmp_path}/mlruns"
    command = ["model=ivqa_answer_only", *_command(tiny_root), *TINY, "model.epochs=2", "seed=3"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    command += ["logger=[wandb,tensorboard,mlflow]"]
    command += ["logger.wandb.upload=[checkpoint]", "trainer.log_every_n_steps=1"]
    status, printed = run("train", *command, f"output_dir={folder}")
    assert status == 0, printed
    metrics = metrics_of(folder)
    assert metrics["train/epochs"] == 2

    (found,) = _runs(folder)
    assert {name: found.summary[name] for name in metrics} == metrics
    # Curves have one point an epoch; the results of the run none.
    assert len(found.history["val/nll_per_word"]) == 2
    assert "train/seconds" not in found.history
    rates = found.history["train/learning_rate"]
    assert len(rates) > 2
    assert 0 < max(rates) <= 0.004
    assert (found.name, found.job_type, found.group) == ("train ivqa_answer_only", "train", "run")
    assert found.artifacts == {"model": ["best.ckpt"]}
    written = yaml.safe_load((folder / "config.yaml").read_text())
    expected = {
        "seed": 3,
        "model.epochs": 2,
        "model.name": "ivqa_answer_only",
        "model.module.network.hidden_size": 16,
        "data.root": str(tiny_root),
        "trainer.max_epochs": written["trainer"]["max_epochs"],
        "environment.packages.torch": str(torch.__version__),
    }
    assert {key: found.config[key] for key in expected} == expected
    assert found.config["environment.machine.cores"] > 0
    nested = {key for key, value in found.config.items() if isinstance(value, dict)}
    assert nested == {"_wandb"}  # W&B's own
    start = "model.module.optimizer."
    leaves = {key.removeprefix(start) for key in found.config if key.startswith(start)}
    assert leaves == set(written["model"]["module"]["optimizer"])

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    last = {name: events.Scalars(name)[-1].value for name in metrics}
    assert last == pytest.approx(metrics, rel=1e-6)
    assert len(events.Scalars("train/learning_rate")) == len(rates)
    assert events.PluginTagToContent("hparams")

    client = MlflowClient(store)
    (one,) = client.search_runs([client.get_experiment_by_name("ivqa").experiment_id])
    assert {name: one.data.metrics[name] for name in metrics} == metrics
    assert one.data.params["model.module.network.hidden_size"] == "16"
    assert (one.info.status, one.info.run_name) == ("FINISHED", "train ivqa_answer_only")

    # A resumed run continues all three; it has another length, which MLflow cannot change.
    status, printed = run("train", f"resume={folder}", "trainer.max_epochs=3")
    assert status == 0, printed
    metrics = metrics_of(folder)
    assert metrics["train/epochs"] == 3
    (one,) = client.search_runs([one.info.experiment_id])
    assert {name: one.data.metrics[name] for name in metrics} == metrics
    assert {part.id for part in _runs(folder)} == {found.id}
    # The same command without resume= starts new ones.
    status, printed = run("train", *command, f"output_dir={folder}")
    assert status == 0, printed
    assert len(client.search_runs([one.info.experiment_id])) == 2
    assert len({part.id for part in _runs(folder)}) == 2
    assert [str(one.message) for one in recwarn if "lightning" in one.filename] == []


@pytest.mark.usefixtures("_offline")
def test_a_command_and_the_model_that_it_trains_are_one_group(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    folder = tmp_path / "evaluation"
    command = ["model=language_only", *_command(tiny_root), "model.epochs=1", "seed=5"]
    command += ["callbacks=robustness", "callbacks.robustness.num_questions=20", "logger=wandb"]
    command += ["logger.wandb.upload=[pages]", "ranker=bleu1"]
    status, printed = run("evaluate", *command, f"output_dir={folder}")
    assert status == 0, printed
    (whole,) = _runs(folder)
    parts = [one for one in _runs(artifacts) if one.group == whole.group]
    assert (whole.name, whole.job_type) == ("evaluate language_only", "evaluate")
    metrics = metrics_of(folder)
    assert {name: whole.summary[name] for name in metrics} == metrics
    assert not set(metrics) & set(whole.history)
    assert whole.history["noise_table._type"] == ["table-file"]
    assert whole.history["noise_table.nrows"] == [8]  # levels of noise
    assert whole.history["noise._type"] == ["html-file"]
    assert "robustness.html" in whole.artifacts["report"]
    assert whole.config["callbacks.robustness.num_questions"] == 20
    assert (whole.config["split"], whole.group) == ("test", "evaluation")
    assert [(one.name, one.job_type) for one in parts] == [("language_only", "part")]


def test_wandb_without_a_key_is_told_before_the_work(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def login() -> None:  # as without a terminal
        raise wandb.errors.UsageError("No API key configured. Use `wandb login` to log in.")

    def diagnose(cfg: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(wandb, "login", login)
    monkeypatch.setattr("ivqa.tasks.diagnose.diagnose", diagnose)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    command = ["vqa=mlb", *_command(tiny_root), "logger=wandb", f"output_dir={tmp_path / 'run'}"]
    status, printed = run("diagnose", *command)
    assert status == 1
    assert printed.strip().splitlines()[-1] == (
        "error: logger=wandb: Weights & Biases has no key on this machine; run: wandb login, "
        "or set WANDB_MODE=offline"
    )
