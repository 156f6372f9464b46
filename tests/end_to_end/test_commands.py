"""train.py and evaluate.py, from the command line to their output files."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import OmegaConf

from ivqa.data.formats.aokvqa import question_number
from ivqa.store.checkpoint_io import AtomicCheckpointIO

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
    "model",
    [
        *("ivqa_vae", "ivqa_answer_only", "ivqa_image_only"),
        pytest.param("ivqa_attention", marks=pytest.mark.slow),
    ],
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
    assert metrics_of(tmp_path / "second") == {**scores, "vqa/failed": 0}
    results = json.loads(file.read_text())
    file.write_text(json.dumps([*results[1:], {"question_id": 5, "answer": "yes"}]))
    status, printed = run("evaluate", *scored)
    assert status == 1
    assert f"question {results[0]['question_id']}: of 'val' has no answer" in printed
    assert "question 5: question_id: is not in split 'val'" in printed


def test_failed_requests_are_left_out_and_counted(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    annotations = json.loads((tiny_root / "annotations_val.json").read_text())["annotations"]
    right = {one["question_id"]: one["multiple_choice_answer"] for one in annotations}
    ids, levels = list(right), []
    for level, failed in enumerate((ids[:3], ids[2:4])):
        records = [{"question_id": key, "answer": right[key]} for key in ids]
        for record in records:
            if record["question_id"] in failed:
                record["answer"] = "Failed to obtain answer via API."
        levels.append(tmp_path / f"level_{level}.json")
        levels[-1].write_text(json.dumps(records))
    folder = tmp_path / "run"
    status, printed = run(
        "evaluate",
        f"predictions=[{levels[0]},{levels[1]}]",
        *_data(tiny_root),
        "data.test=val",
        f"output_dir={folder}",
    )
    assert status == 0, printed
    share = f"{3 / len(ids):.1%}"
    assert f"warning: level_0.json: 3 of {len(ids)} requests failed ({share})" in printed
    assert f"left out: {ids[0]}, {ids[1]}, {ids[2]}" in printed
    metrics = metrics_of(folder)
    assert (metrics["vqa/failed"], metrics["vqa/accuracy"]) == (4, 1)
    assert metrics["robustness/partition_1/accuracy"] == 1
    only = [{"question_id": key, "answer": ""} for key in ids]
    levels[0].write_text(json.dumps(only))
    status, printed = run("evaluate", f"predictions={levels[0]}", *_data(tiny_root))
    assert status == 1
    assert f"all {len(ids)} requests failed, most with empty" in printed


@pytest.mark.parametrize("tool", ["vlmevalkit", "lmms_eval", "datasets"])
def test_export_without_noise_writes_level_0(
    tool: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    folder = f"output_dir={tmp_path / 'run'}"
    status, printed = run("evaluate", f"export={tool}", *_data(tiny_root), folder)
    assert status == 0, printed
    assert "questions at 1 levels" in printed
    names = {file.name for file in (tmp_path / "run" / "export").rglob("*level_0*")}
    assert names & {"ivqa_questions_val_level_0.tsv", "level_0.parquet"}


def _write_model_of_the_documentation(folder: Path) -> None:
    page = (PROJECT / "docs" / "vqa_models.md").read_text()
    (folder / "my_models.py").write_text(page.split("```python\n")[1].split("```")[0])
    (folder / "my_conf" / "model").mkdir(parents=True)
    config = page.split("```yaml\n")[1].split("```")[0]
    (folder / "my_conf" / "model" / "bag_of_words.yaml").write_text(config)


@pytest.mark.slow
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
    lines = ["Launching 4 jobs locally", "job 0: model=ivqa_answer_only seed=1"]
    assert set(lines) <= set(printed.splitlines())
    assert "HYDRA" not in printed
    table = (sweep / "table.md").read_text()
    assert table.count("\n") == 4
    assert "±" in table
    assert len(json.loads((sweep / "results.json").read_text())) == 4


# As small as Lightning's interface allows, with an argument of its own.
LOGGER = """
import json
from pathlib import Path
from pytorch_lightning.loggers.logger import Logger

class Lines(Logger):
    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = Path(file)

    name = version = "lines"

    def log_hyperparams(self, params, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        with self.file.open("a") as stream:
            stream.write(json.dumps({**metrics, "step": step}) + "\\n")
"""


@pytest.mark.parametrize(
    ("logger", "package"),
    [("MLFlowLogger", "mlflow"), ("CometLogger", "comet-ml"), ("TensorBoardLogger", "tensorboard")],
)
def test_a_logger_without_its_package_says_what_to_install(
    logger: str, package: str, run: Run, tiny_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"pytorch_lightning.loggers.{logger}"

    def absent(*_: object, **__: object) -> None:  # the package may be installed here
        advice = f"HINT: Try running `pip install -U '{package}>=1'`"
        raise ModuleNotFoundError(f"Requirement '{package}>=1' not met. {advice}")

    monkeypatch.setattr(f"{target}.__init__", absent)
    command = ["model=language_only", *_data(tiny_root), "model.epochs=1", "output_dir=run"]
    status, printed = run("train", *command, f"+logger.mine={{_target_:{target}}}")
    assert status == 1
    wanted = (
        "error: logger.mine needs a package that is not installed; install it with: pip install"
    )
    assert f"{wanted} '{package}>=1'" in " ".join(printed.split())
    assert "bug in ivqa" not in printed


def test_any_logger_of_lightning_works(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "line_logger.py").write_text(LOGGER)
    monkeypatch.syspath_prepend(tmp_path)
    place = "+logger.lines.file=${output_dir}/lines.jsonl"
    added = ["+logger.lines._target_=line_logger.Lines", place]
    command = ["model=language_only", *_data(tiny_root), "model.epochs=1", *added]
    for name, more in {"both": [], "own": ["logger.csv=null"]}.items():
        status, printed = run("train", *command, *more, f"output_dir={tmp_path / name}")
        assert status == 0, printed
        lines = (tmp_path / name / "lines.jsonl").read_text().splitlines()
        assert any("val/vqa_accuracy" in json.loads(line) for line in lines)
        assert (tmp_path / name / "metrics.csv").is_file() == (name == "both")


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
    killed_at = torch.load(last, weights_only=True)
    assert killed_at["epoch"] < 15
    killed_at["callbacks"]["Timer"]["time_elapsed"]["train"] = 1000.0  # as of a longer training
    AtomicCheckpointIO().save_checkpoint(killed_at, last)
    status, printed = run("train", "resume=killed")
    assert status == 0, printed
    assert 1000 < metrics_of(tmp_path / "killed")["train/seconds"] < 1500
    states = [
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "killed")
    ]
    assert states[0]["global_step"] == states[1]["global_step"]
    for key, value in states[0]["state_dict"].items():
        assert torch.equal(value, states[1]["state_dict"][key]), key
    csv = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "killed")]
    assert csv[0] == csv[1]


@pytest.mark.slow
def test_a_killed_run_of_an_own_model_resumes(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_model_of_the_documentation(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
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
    process = start("train", *command, "output_dir=my run", cwd=tmp_path, artifacts=artifacts)
    last = tmp_path / "my run" / "checkpoints" / "last.ckpt"
    while not last.is_file() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    try:
        printed = process.communicate(timeout=120)[0]
    finally:
        process.kill()
    assert process.returncode == status, printed
    assert "Traceback" not in printed
    told = "error: interrupted; written files are kept; continue with: "
    assert told in printed
    line = printed.split(told)[1].splitlines()[0]
    again = [*shlex.split(line), "trainer.max_epochs=1", "artifacts=store"]
    subprocess.run(again, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "my run" / "metrics.json").is_file()


def test_a_resumed_run_must_keep_its_settings(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = ["model=ivqa_answer_only", *_data(tiny_root), *TINY]
    assert run("train", *command, f"output_dir={tmp_path / 'run'}")[0] == 0
    status, printed = run("train", "resume=run", "model.batch_size=32", "seed=2")
    assert status == 1
    changes = "seed is 1 there, 2 here; model.batch_size is 16 there, 32 here; start a new run"
    assert f"error: resume={tmp_path / 'run'}: {changes}" in printed
    assert len(printed) < 300
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


def test_a_data_set_is_scored_by_its_own_evaluation(run: Run, tmp_path: Path) -> None:
    """A-OKVQA: difficult questions do not count, one of ten direct answers is a third."""
    records = [
        {
            "image_id": at, "question_id": f"name{at}", "question": f"What is {word}?",
            "choices": ["cab", "bus"], "correct_choice_idx": at % 2, "rationales": [],
            "direct_answers": ["cab"] + ["taxi"] * 9, "difficult_direct_answer": at == 3,
        }
        for at, word in enumerate(["one", "two", "three", "four"])
    ]  # fmt: skip
    for split in ("train", "val"):
        (tmp_path / f"aokvqa_v1p0_{split}.json").write_text(json.dumps(records))
    data = ["data=aokvqa", f"data.root={tmp_path}"]
    answers = ["cab", "cab", "bus", "cab"]
    results = [
        {"question_id": question_number(f"name{at}"), "answer": answer}
        for at, answer in enumerate(answers)
    ]
    (tmp_path / "results.json").write_text(json.dumps(results))
    scored = [f"predictions={tmp_path / 'results.json'}", f"output_dir={tmp_path / 'scored'}"]
    status, printed = run("evaluate", *data, *scored)
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "scored")
    assert metrics["vqa/accuracy"] == pytest.approx(2 / 9, abs=1e-9)
    assert metrics["vqa/multiple_choice"] == 0.25
    model = ["model=language_only", "features=none", "model.epochs=1", f"artifacts={tmp_path}/a"]
    noise = ["callbacks=robustness", "noise=word_shuffling", f"output_dir={tmp_path / 'run'}"]
    status, printed = run("evaluate", *data, *model, *noise)
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert metrics["vqa/accuracy"] == metrics["robustness/partition_0/accuracy"]
    assert metrics["test/vqa_accuracy"] == pytest.approx(metrics["vqa/accuracy"])
    assert metrics["vqa/multiple_choice"] in (0, 0.25, 0.5)
