"""Basic question datasets from the command line: built, resumed, sharded, merged, used."""

import json
import time
from pathlib import Path

import pytest

from .conftest import Run, metrics_of, start

pytest.importorskip(
    "submitit", reason="shards run by submitit; install the extra `cluster` to test them"
)
# The pool that noise=basic_questions ranks, and a ranker that takes no time.
RANK = ["task=rank", "bqd.splits=[train]", "ranker=cosine", "encoder.size=16", "part_size=8"]


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}"]


def _answers(root: Path) -> dict[str, list[str]]:
    """The answers of each training question by its words; those of its first occurrence."""
    questions = json.loads((root / "questions_train.json").read_text())["questions"]
    annotations = json.loads((root / "annotations_train.json").read_text())["annotations"]
    by_id = {
        one["question_id"]: [answer["answer"] for answer in one["answers"]] for one in annotations
    }
    given: dict[str, list[str]] = {}
    for one in questions:
        given.setdefault(one["question"].lower().strip("?"), by_id[one["question_id"]])
    return given


@pytest.mark.slow
def test_merged_shards_equal_the_file_of_one_process(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*RANK, *_data(tiny_root), "keep_answers=true"]
    one, shards, merged = tmp_path / "one", tmp_path / "shards", tmp_path / "merged"
    status, printed = run("evaluate", *command, f"output_dir={one}")
    assert status == 0, printed
    metrics = metrics_of(one)
    assert metrics["bqd/main_questions"] == 30
    assert metrics["bqd/questions_per_second"] > 0
    assert sum(metrics[f"vqabq/helpful_{count}"] for count in range(4)) == pytest.approx(1)
    records = json.loads((one / "bqd.json").read_text())
    assert [len(record["BQ"]) for record in records] == [21] * 30
    given = _answers(tiny_root)
    for record in records:
        assert record["answers"] == [given[text.lower().strip("?")] for text, _ in record["BQ"]]
        assert len(record["MQ_answers"]) == 10

    sweep = ["num_shards=2", "shard=0,1", "hydra/launcher=submitit_local"]
    status, printed = run("evaluate", "-m", *command, *sweep, f"output_dir={shards}")
    assert status == 0, printed
    status, printed = run("evaluate", "task=merge", f"shards={shards}", f"output_dir={merged}")
    assert status == 0, printed
    for name in ("bqd.parquet", "bqd.json"):
        assert (merged / name).read_bytes() == (one / name).read_bytes()

    second = shards / "1" / "shard_1_of_2.parquet"
    content = second.read_bytes()
    other = ["num_shards=2", "shard=1", "keep_answers=false", f"output_dir={shards / '1'}"]
    assert run("evaluate", *command, *other)[0] == 0
    status, printed = run("evaluate", "task=merge", f"shards={shards}")
    assert status == 1
    assert "keep_answers is True there, False here" in printed.replace("\n", " ")
    second.write_bytes(content[: len(content) // 2])
    status, printed = run("evaluate", "task=merge", f"shards={shards}")
    assert status == 1
    assert "shard_1_of_2.parquet is cut short" in printed.replace("\n", " ")
    second.unlink()
    status, printed = run("evaluate", "task=merge", f"shards={shards}")
    assert status == 1
    assert "shard 1 of 2 is missing" in printed.replace("\n", " ")
    assert "Traceback" not in printed
    # A shard that is started again in its directory continues from its parts.
    again = ["num_shards=2", "shard=1", f"output_dir={shards / '1'}"]
    assert run("evaluate", *command, *again)[0] == 0
    assert "bqd/questions_per_second" not in metrics_of(shards / "1")
    assert second.read_bytes() == content


def test_a_killed_ranking_resumes_to_the_same_file(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    command = [*RANK, *_data(tiny_root), "split=train", "part_size=1"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start("evaluate", *command, f"output_dir={killed}", cwd=tmp_path, artifacts=artifacts)
    while not (killed / "progress.json").is_file() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    done = len(list((killed / "parts").glob("part_*.parquet")))
    assert 0 < done < 100
    assert not (killed / "bqd.parquet").exists()
    status, printed = run("evaluate", f"resume={killed}")
    assert status == 0, printed
    assert run("evaluate", *command, f"output_dir={whole}")[0] == 0
    assert (killed / "bqd.parquet").read_bytes() == (whole / "bqd.parquet").read_bytes()
    status, printed = run("evaluate", f"resume={killed}", "k=9")
    assert status == 1
    assert "k is 21 there, 9 here" in printed.replace("\n", " ")


def test_noise_from_a_file_equals_noise_from_the_ranker(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    built = tmp_path / "built"
    command = [*RANK, *_data(tiny_root), "part_size=1024", f"output_dir={built}"]
    assert run("evaluate", *command)[0] == 0
    model = ["model=language_only", "model.epochs=1", "callbacks=robustness", RANK[1]]
    model += _data(tiny_root)
    choices = {
        "ranker": ["ranker=cosine", "encoder.size=16"],
        "parquet": ["noise=bqd", f"noise.path={built / 'bqd.parquet'}"],
        "json": ["noise=bqd", f"noise.path={built / 'bqd.json'}"],
    }
    figures = {}
    for name, choice in choices.items():
        status, printed = run("evaluate", *model, *choice, f"output_dir={tmp_path / name}")
        assert status == 0, printed
        figures[name] = {
            key: value
            for key, value in metrics_of(tmp_path / name).items()
            if key.startswith(("robustness/partition", "robustness/r_score"))
        }
    assert figures["ranker"] == figures["parquet"] == figures["json"]

    source = ["noise@noise.source=bqd", f"noise.source.path={built / 'bqd.parquet'}"]
    helped = tmp_path / "helped"
    status, printed = run("evaluate", *model, "noise=vqabq", *source, f"output_dir={helped}")
    assert status == 0, printed
    metrics, built_metrics = metrics_of(helped), metrics_of(built)
    assert {"robustness/partition_0/accuracy", "robustness/partition_1/accuracy"} <= set(metrics)
    assert "robustness/partition_2/accuracy" not in metrics
    assert metrics["robustness/helpful_0"] == built_metrics["vqabq/helpful_0"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["k=100000"], "choose a smaller k or a larger pool"),
        (["shard=2", "num_shards=2"], "shards are numbered from 0"),
        (["bqd=ynbqd", "bqd.answer_type=maybe"], "no question of train, val"),
        (["bqd=gbq"], "there is no bqd=gbq; did you mean gbqd"),
        (["task=rankk"], "there is no task=rankk; did you mean rank"),
        (["task=merge"], "shards must be set"),
        (["task=merge", "shards=."], "holds no shard_S_of_N.parquet"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(
    overrides: list[str], message: str, run: Run, tiny_root: Path
) -> None:
    task = [] if overrides[0].startswith("task=") else ["task=rank"]
    status, printed = run("evaluate", *task, *_data(tiny_root), *overrides)
    assert status == 1
    assert message in printed.replace("\n", " ")
    assert "Traceback" not in printed
