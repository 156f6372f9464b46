"""diagnose.py, from the command line to its output files."""

import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from ivqa.data import BatchSettings, VQADataset
from ivqa.data.batches.batch import VQABatch
from ivqa.data.results import results_text
from ivqa.diagnosis import Belief, PolicyGradientModule, read_beliefs, read_reasons
from ivqa.diagnosis.beliefs.challenge import write_challenge
from ivqa.scenes import oracle_of
from tiny_transformers import tiny_blip

from .conftest import ONE_STEP, TINY_BENCHMARK, TINY_DIAGNOSIS, TINY_FEATURES, Run, metrics_of
from .tiny_vilt import train_tiny_vilt


def _command(root: Path, *overrides: str) -> list[str]:
    return ["data=vqa_json", f"data.root={root}", *TINY_DIAGNOSIS, *overrides]


def test_a_model_is_diagnosed_and_the_diagnosis_resumes(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "first"
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    own = "+model.module.rewards.own={_target_:ivqa.diagnosis.DiversityReward}"
    command = _command(tiny_root, "vqa=mlb", own, "logger=wandb", f"output_dir={first}")
    status, printed = run("diagnose", *command)
    assert status == 0, printed
    origin = json.loads((first / "provenance.json").read_text())
    assert shlex.split(origin["command"]) == ["python", "diagnose.py", *command]
    chart = (first / "report.html").read_text().partition("Rewards of the policy. ")[2]
    shown = re.findall(r"(\w+): 2: ", chart.partition('"')[0])  # the last step of the first epoch
    assert shown == ["reward", "goal", "legality", "diversity", "own"]
    files = first / "wandb" / "latest-run" / "files" / "media"
    assert list(files.glob("html/report_*.html"))
    assert list(files.glob("table/beliefs_table_*.json"))
    (file,) = files.glob("table/belief_pictures_*.json")
    pictures = json.loads(file.read_text())
    assert pictures["columns"][-1] == "picture"
    assert 0 < len(pictures["data"]) <= 50
    # The pictures themselves wait to be uploaded with the table.
    staged = [one for one in (tmp_path / "data").rglob("*") if one.is_file()]
    sizes = [Image.open(one).size for one in staged if one.read_bytes().startswith(b"\x89PNG")]
    assert sizes == [(128, 128)] * len(pictures["data"])
    metrics = metrics_of(first)
    expected = "count unique_per_pair mean_score oracle_cider oracle_bleu4 contradictions"
    assert {f"beliefs/{name}" for name in expected.split()} <= set(metrics)
    assert {"vqa/accuracy", "robustness/r_score", "robustness/partition_7/accuracy"} <= set(metrics)
    assert {"rl/legal", "rl/understood", "supervised/understood"} <= set(metrics)
    assert all(isinstance(value, float | int) for value in metrics.values())
    beliefs = read_beliefs(first / "beliefs.jsonl")
    assert len(beliefs) == metrics["beliefs/count"] > 0
    assert len({(b.image_id, b.answer, b.question) for b in beliefs}) == len(beliefs)
    assert {belief.source for belief in beliefs} <= {"supervised", "rl"}
    explained = read_reasons(first / "reasons.jsonl")
    assert explained
    # MLB has attention, and each word of a belief is left out in turn.
    for line, reasons in explained.items():
        assert len(reasons.falls) == len(beliefs[line - 1].question.split()) or not reasons.falls
        assert sum(reasons.places) == pytest.approx(1, abs=1e-3)
    for page in ("report.html", "annotate.html", "robustness.html"):
        assert not re.search(r"""(src|href)=["']?http""", (first / page).read_text())
    follow_ups = read_beliefs(first / "follow_ups.jsonl")
    assert len(follow_ups) == metrics["follow_ups/count"] > 0
    assert {one.source for one in follow_ups} == {"follow_up"}
    asked = [(one.image_id, one.question) for one in (*beliefs, *follow_ups)]
    assert len({(image, text.casefold()) for image, text in asked}) == len(set(asked))
    assert max(Counter(one.image_id for one in follow_ups).values()) <= 100
    denials = {(one.image_id, (one.question, one.answer, one.phi)) for one in follow_ups}
    denied = [one for one in beliefs if one.denied_by is not None]
    assert all(one.suspect and (one.image_id, one.denied_by) in denials for one in denied)
    # Trained models are reused, and a search without its last chunk continues.
    second = tmp_path / "second"
    shutil.copytree(first, second)
    sorted((second / "parts").glob("*.json"))[-1].unlink()
    (second / "beliefs.jsonl").unlink()
    (second / "config.yaml").write_text((first / "config.yaml").read_text())
    shutil.copy(first / "overrides.yaml", second / "overrides.yaml")
    status, printed = run("diagnose", f"resume={second}")
    assert status == 0, printed
    assert "No trained" not in printed
    assert read_beliefs(second / "beliefs.jsonl") == beliefs
    assert metrics_of(second) == metrics
    origin = json.loads((second / "provenance.json").read_text())
    whole = ["python", "diagnose.py", *command[:-1], f"output_dir={second}"]
    assert shlex.split(origin["command"]) == whole
    # The most important follow-ups are asked first; known answers are not asked for again.
    known = (second / "parts" / "asked.jsonl").read_bytes()
    status, printed = run("diagnose", f"resume={second}", "max_follow_ups=3")
    assert status == 0, printed
    fewer = read_beliefs(second / "follow_ups.jsonl")
    assert set(fewer) <= set(follow_ups)
    assert max(Counter(one.image_id for one in fewer).values(), default=0) <= 3
    assert (second / "parts" / "asked.jsonl").read_bytes() == known


def test_a_directory_does_not_give_the_beliefs_of_one_model_to_another(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    there = f"output_dir={tmp_path / 'run'}"
    command = [item for item in _command(tiny_root, there) if "robustness" not in item]
    status, printed = run("diagnose", *command, "vqa=mlb")
    assert status == 0, printed
    status, printed = run("diagnose", *command, "vqa=mlb", "num_latents=3")
    assert status == 1
    assert "was written with other settings (num_latents is " in " ".join(printed.split())


def test_another_model_is_scored_on_the_challenging_set(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    dataset = VQADataset(tiny_root, test=None)
    split, oracle = dataset.split("val"), oracle_of(dataset, "val")
    asked = list(zip(split.image_ids.tolist(), split.questions, split.main_answers, strict=True))
    beliefs = [
        Belief(image_id, "nothing", question, 0.5, -1.0, 0.9, "rl", "adversarial", "oracle")
        for image_id, question, _ in asked
    ]
    irrelevant = replace(beliefs[0], question="Is the moon there?", type="irrelevant")
    right = replace(beliefs[0], question="Is there a star?", type="complementary")
    root = tmp_path / "challenge"
    told = [*beliefs, beliefs[0], irrelevant, right]
    distinct = len({(image_id, question) for image_id, question, _ in asked})
    assert write_challenge(root, told, split, oracle) == distinct
    challenge = VQADataset(root, train=None, val=None, test="challenge").split("test")
    assert len(challenge) == distinct
    assert challenge.images is not None
    assert len(VQADataset(root, train=None, val=None, test="irrelevant").split("test")) == 1
    assert oracle is not None
    for row, question in enumerate(challenge.questions):
        judged = oracle.judge(int(challenge.image_ids[row]), question)
        assert challenge.main_answers[row] == judged.answer
    status, printed = run(
        "evaluate",
        "model=vanilla",
        "model.epochs=1",
        *TINY_FEATURES,
        "data=vqa_json",
        f"data.root={tiny_root}",
        f"questions={root}",
        f"output_dir={tmp_path / 'challenged'}",
    )
    assert status == 0, printed
    assert set(metrics_of(tmp_path / "challenged")) >= {"vqa/accuracy"}


def test_a_multirun_becomes_one_challenging_set_for_each_seed(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    dataset = VQADataset(tiny_root, test=None)
    split, oracle = dataset.split("val"), oracle_of(dataset, "val")
    asked = list(zip(split.image_ids.tolist(), split.questions, strict=True))
    for job, seed in enumerate((1, 2)):
        beliefs = [
            Belief(image_id, "nothing", question, 0.5, -1.0, 0.9, "rl", "adversarial", "oracle")
            for image_id, question in asked[: 4 * seed]
        ]
        folder = tmp_path / "sweep" / str(job)
        write_challenge(folder / "challenge", beliefs, split, oracle)
        (folder / "metrics.json").write_text("{}")
        (folder / "config.yaml").write_text(f"name: mlb\nseed: {seed}\n")
    union = tmp_path / "union"
    joined = ["-m", "task=challenge", "seed=1,2", f"runs=[{tmp_path / 'sweep'}]"]
    status, printed = run("evaluate", *joined, f"output_dir={union}")
    assert status == 0, printed
    status, printed = run(
        "evaluate",
        "-m",
        "model=prior",
        "seed=1,2",
        "features=none",
        "data=vqa_json",
        f"data.root={tiny_root}",
        f"questions={union}/seed_${{seed}}/challenge",
        f"output_dir={tmp_path / 'scored'}",
    )
    assert status == 0, printed
    for job, seed in enumerate((1, 2)):
        own = asked[: 4 * seed]
        metrics = metrics_of(tmp_path / "scored" / str(job))
        assert metrics["vqa/questions"] == len(set(own))
        assert metrics["vqa/images"] == len({image_id for image_id, _ in own})


def test_a_transformers_model_is_diagnosed_by_the_same_command(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    train = VQADataset(tiny_root).split("train")
    folder = train_tiny_vilt(train, tmp_path / "vilt", steps=10, batch_size=8, hidden_size=32)
    small = [item for item in TINY_DIAGNOSIS if not item.startswith("vqa.")]
    status, printed = run(
        "diagnose",
        "vqa=hf_classifier",
        f"vqa.path={folder}",
        "callbacks=default",
        "data=vqa_json",
        f"data.root={tiny_root}",
        *small,
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert metrics["beliefs/count"] > 0
    assert not any(name.startswith("robustness") for name in metrics)


@pytest.mark.slow
def test_blip_is_diagnosed_and_evaluated_under_noise(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    folder = tiny_blip(tmp_path / "model")
    small = [item for item in TINY_DIAGNOSIS if not item.startswith("vqa.")]
    status, printed = run(
        "diagnose",
        "vqa=hf_blip",
        f"vqa.path={folder}",
        "vqa.num_answers=5",
        "data=vqa_json",
        f"data.root={tiny_root}",
        *small,
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert 0 <= metrics["beliefs/mean_score"] <= 1
    assert "robustness/r_score" in metrics
    assert metrics["robustness/truncated"] == 1


@pytest.mark.slow
def test_train_py_trains_a_policy_that_is_evaluated_on_the_whole_split(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [item for item in TINY_DIAGNOSIS if item.split("=")[0] not in _OF_DIAGNOSE]
    command = ["model=ivqa_rl", "vqa=vanilla", "reward=goal", "data=vqa_json"]
    command += [f"data.root={tiny_root}", *small]
    command += TINY_BENCHMARK
    assert BatchSettings.__init__.__kwdefaults__
    monkeypatch.setitem(BatchSettings.__init__.__kwdefaults__, "eval_batch_size", 8)
    validated: list[int] = []
    step = PolicyGradientModule.validation_step

    def counted(self: PolicyGradientModule, batch: VQABatch, batch_idx: int) -> None:
        validated.extend(batch.rows.tolist())
        step(self, batch, batch_idx)

    monkeypatch.setattr(PolicyGradientModule, "validation_step", counted)
    status, printed = run("train", *command, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    assert "val/goal" in metrics_of(tmp_path / "run")
    assert "val/legality" not in metrics_of(tmp_path / "run")
    logged = {name for name in metrics_of(tmp_path / "run") if name.startswith("val/")}
    expected = PolicyGradientModule.validation_metrics({"rewards": {"goal": {}}})
    assert logged == expected | {"val/legal_by_grammar"}  # these data have an oracle
    questions = json.loads((tiny_root / "questions_val.json").read_text())["questions"]
    assert len(set(validated)) < len(questions)  # model.val_batches=1

    validated.clear()
    ckpt = f"ckpt={tmp_path / 'run' / 'checkpoints' / 'best.ckpt'}"
    status, printed = run("evaluate", *command, ckpt, "split=val")
    assert status == 0, printed
    assert sorted(validated) == list(range(len(questions)))
    validated.clear()
    status, printed = run("evaluate", *command, ckpt, "split=val", "trainer.limit_val_batches=1")
    assert status == 0, printed
    assert 0 < len(validated) < len(questions)


def test_a_resumed_policy_ends_with_the_same_weights(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    small = [item for item in TINY_DIAGNOSIS if item.split("=")[0] not in _OF_DIAGNOSE]
    command = ["model=ivqa_rl", "vqa=vanilla", "data=vqa_json", f"data.root={tiny_root}", *small]
    command += ["reward=adversarial"]  # a legality model that is trained on, too
    command += ["+trainer.deterministic=true"]  # a GPU adds gradients in any order otherwise
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("train", *command, f"output_dir={whole}")[0] == 0
    assert run("train", *command, "trainer.max_epochs=1", f"output_dir={parts}")[0] == 0
    status, printed = run("train", f"resume={parts}", "trainer.max_epochs=2")
    assert status == 0, printed
    one, other = (
        torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for folder in (whole, parts)
    )
    assert one.keys() == other.keys()
    assert int(one["adversary.steps"]) > 1
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_noise_curves_are_added_to_the_metrics_of_a_model(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    for noise in ("basic_questions", "word_shuffling"):
        status, printed = run(
            "evaluate",
            "model=language_only",
            "model.epochs=1",
            "callbacks=robustness",
            f"noise={noise}",
            "data=vqa_json",
            f"data.root={tiny_root}",
            f"output_dir={tmp_path / noise}",
        )
        assert status == 0, printed
        assert "accuracy under noise" in printed
        metrics = metrics_of(tmp_path / noise)
        assert metrics["robustness/partition_0/accuracy"] == pytest.approx(metrics["vqa/accuracy"])
        assert metrics["robustness/r_score_low"] <= metrics["robustness/r_score"]
        assert (tmp_path / noise / "robustness.png").stat().st_size > 1000


def test_another_vqa_system_is_evaluated_under_noise_by_files_alone(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}"]
    noisy = tmp_path / "noisy"
    status, printed = run("evaluate", *data, "write_noisy_questions=true", f"output_dir={noisy}")
    assert status == 0, printed
    files = sorted(noisy.glob("questions_val_level_*.json"))
    assert len(files) == 8
    clean, first = (json.loads(file.read_text())["questions"] for file in files[:2])
    for one, other in zip(clean, first, strict=True):
        assert one["question_id"] == other["question_id"]
        assert other["question"].startswith(one["question"] + " ")
    # A system that is right on clean questions and always answers yes under noise.
    split = VQADataset(tiny_root, test=None).split("val")
    results = [split.main_answers, ["yes"] * len(split)]
    names = []
    for level, answers in enumerate(results):
        names.append(tmp_path / f"level_{level}.json")
        names[-1].write_text(results_text(split, answers))
    listed = f"predictions=[{names[0]},{names[1]}]"
    status, printed = run("evaluate", *data, listed, f"output_dir={tmp_path / 'scored'}")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "scored")
    assert metrics["robustness/partition_0/accuracy"] == metrics["vqa/accuracy"] > 0.8
    assert metrics["robustness/r_score"] == 0
    wide = ["r_score.limit=1.0", "r_score.tolerance=0.01", f"output_dir={tmp_path / 'wide'}"]
    assert run("evaluate", *data, listed, *wide)[0] == 0
    scored = metrics_of(tmp_path / "wide")
    change = abs(
        scored["robustness/partition_0/accuracy"] - scored["robustness/partition_1/accuracy"]
    )
    assert scored["robustness/r_score"] == pytest.approx((1 - change**0.5) / (1 - 0.1))
    assert scored["robustness/r_score_low"] < scored["robustness/r_score"]
    # The robustness callback and the comparison of runs have the same two parameters.
    compared = ["evaluate", f"compare=[{tmp_path / 'scored'},{tmp_path / 'wide'}]", *wide[:2]]
    assert run(*compared, f"output_dir={tmp_path / 'compared'}")[0] == 0
    differences = metrics_of(tmp_path / "compared")
    assert differences["first/r_score"] == scored["robustness/r_score"]
    assert differences["compare/r_score_difference_1"] == 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["pool=some"], "pool=some: must be ground_truth, top or all"),
        (["compare=[nowhere]"], "compare[0]=nowhere: there is no such folder"),
        (["compare=[.]"], "holds no finished diagnosis"),
        (["vqa=mlbb"], "did you mean mlb"),
    ],
)
def test_bad_settings_are_reported_in_one_sentence(
    overrides: list[str], message: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    output = f"output_dir={tmp_path / 'run'}"
    choice = [] if overrides[0].startswith("vqa") else ["vqa=mlb"]
    status, printed = run("diagnose", *_command(tiny_root, *choice, *overrides, output))
    assert status == 1
    assert message in printed
    assert "Traceback" not in printed


_OF_DIAGNOSE = {"num_images", "num_latents", "legality", "num_noisy_questions"}


def test_sources_of_questions_are_compared_about_the_same_images(
    run: Run, tiny_root: Path, tmp_path: Path, known_questions: None
) -> None:
    command = [one for one in _command(tiny_root, *ONE_STEP) if "legality=" not in one]
    command = [one for one in command if "num_noisy" not in one]
    told = ["task=question_sources", "split=val", "budgets=[4,40]", f"output_dir={tmp_path}"]
    status, printed = run("evaluate", *command, *told)
    assert status == 0, printed
    metrics = metrics_of(tmp_path)
    sources = {name.split("/")[0] for name in metrics}
    assert {"search", "plain_english", "own", "random", "simple"} <= sources
    assert (metrics["search/4/questions"], metrics["simple/40/questions"]) == (4, 40)
    assert "own/40/questions" not in metrics  # four images have fewer than 40 questions
    rows = (tmp_path / "table.md").read_text()
    assert "| simple, 40 |" in rows
