"""The challenging sets of two models, joined by hand and by the program."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image

from ivqa.data import DataError, VQADataset, VQASplit
from ivqa.data.images import ImageFiles
from ivqa.diagnosis import Belief, apply_annotations, corrected_answers, write_challenge
from ivqa.diagnosis.beliefs.challenge_union import join_challenges
from ivqa.errors import UserError
from ivqa.metrics import vqa_accuracies
from ivqa.tasks.challenge import card_rows, data_card, join

BASE = Belief(1, "2", "How many?", 0.5, -3.0, 0.9, "rl", "adversarial", "human")


def _split(folder: Path, color: str) -> VQASplit:
    folder.mkdir()
    ids = np.array([1, 2])
    for number in ids:
        Image.new("RGB", (8, 8), color).save(folder / f"{number}.png")
    files = ImageFiles(ids, [folder / f"{number}.png" for number in ids])
    texts = [["Is it?"] * 2, [["yes"]] * 2, ["yes"] * 2, ["yes/no"] * 2, ["is it"] * 2]
    return VQASplit("val", ids, ids, *texts, images=files)


def test_people_correct_answers_and_the_union_accepts_them(tmp_path: Path) -> None:
    split = _split(tmp_path / "images", "teal")
    first = [
        BASE,
        replace(BASE, question="Is it?", answer="yes", type="complementary"),
        replace(BASE, question="Who?", answer="a cat"),
    ]
    second = [replace(BASE, answer="4"), replace(BASE, image_id=2, question="Is it?", answer="no")]
    second.append(replace(BASE, question="Is it?", answer="yes", type="rephrase"))
    roots = {}
    for name, beliefs, right in (("A", first, ["Three.", "3", "five"]), ("B", second, ["six"])):
        wrong = {"relevant": True, "same_fact": False, "correct": False}
        key = {"image_id": 1, "answer": beliefs[0].answer, "question": "How many?"}
        records = [{**key, **wrong, "right_answer": answer} for answer in right]
        other = {"image_id": beliefs[1].image_id, "answer": beliefs[1].answer, **wrong}
        other |= {"question": "Is it?", "correct": name == "A", "right_answer": ""}
        records.append(other)
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(records))
        typed = apply_annotations(beliefs, file)
        corrections = corrected_answers(typed, file)
        # The answers are normalised; an empty one is none.
        expected = {"A": ["3", "3", "5"], "B": ["6"]}[name]
        assert corrections == {replace(beliefs[0], type="adversarial", type_by="human"): expected}
        # Beliefs that nobody annotated keep their types here, so that the splits overlap.
        kept = [own if own.type else belief for own, belief in zip(typed, beliefs, strict=True)]
        roots[name] = tmp_path / name / "challenge"
        assert write_challenge(roots[name], kept, split, None, corrections) == 1

    joined = join_challenges(tmp_path / "union", roots)
    asked = {record["question"]: record for record in joined["challenge"]}
    assert asked["How many?"]["believed_by"] == {"A": "2", "B": "4"}
    dataset = VQADataset(tmp_path / "union", train=None, val=None, test="challenge")
    whole = dataset.split("test")
    assert whole.main_answers == ["3"]
    given = ["3", "five", "6", "2", "4"]
    assert vqa_accuracies(given, list(whole.answers) * 5).tolist() == [1, 1, 1, 0, 0]
    written = json.loads((tmp_path / "union" / "annotations_challenge.json").read_text())
    numbers = [one["answer_id"] for one in written["annotations"][0]["answers"]]
    assert numbers == list(range(1, 13))  # three answers of four annotators
    # "Who?" and the "Is it?" about image 2 have no known answer.
    unknown = {(one["image_id"], one["question"]) for one in joined["irrelevant"]}
    assert unknown == {(1, "Who?"), (2, "Is it?")}
    kinds = {(one["question"], one["kind"]) for one in joined["beliefs"]}
    assert kinds == {("How many?", "adversarial"), ("Is it?", "complementary")}
    assert [row["all models"] for row in card_rows(joined, ["A", "B"])] == [1, 0, 2]
    assert "| challenge | 1 | 1 | 1 | 1 | 1 |" in data_card(joined, ["A", "B"])
    # The command does the same with the two runs.
    runs = [str(root.parent) for root in roots.values()]
    cfg = {"runs": runs, "seed": 1, "output_dir": str(tmp_path / "run")}
    assert join(OmegaConf.create(cfg)) == 1
    both = [
        tmp_path / folder / "annotations_challenge.json" for folder in ("union", "run/challenge")
    ]
    assert both[0].read_text() == both[1].read_text()
    assert (tmp_path / "run" / "challenge" / "README.md").read_text() == data_card(
        joined, ["A", "B"]
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.json").write_text("{}")
    absent = OmegaConf.create({**cfg, "runs": [str(tmp_path / "other")]})
    with pytest.raises(UserError, match=r"has no challenge/; give runs of diagnose.py"):
        join(absent)


def test_of_a_multirun_the_jobs_with_the_seed_are_joined(tmp_path: Path) -> None:
    split = _split(tmp_path / "images", "teal")
    wrong = {"A": [(1, "How many?"), (1, "Who?")], "B": [(1, "How many?"), (2, "How many?")]}
    jobs = [("A", 1), ("A", 2), ("B", 1), ("B", 2)]
    for number, (name, seed) in enumerate(jobs):
        job = tmp_path / "sweep" / str(number)
        # Another seed asks one question that the first does not.
        asked = [*wrong[name], *([(2, f"What, {name}?")] if seed == 2 else [])]
        beliefs = [replace(BASE, image_id=image, question=text) for image, text in asked]
        corrections = {belief: ["4"] for belief in beliefs}
        write_challenge(job / "challenge", beliefs, split, None, corrections)
        (job / "metrics.json").write_text("{}")
        (job / "config.yaml").write_text(f"name: {name}\nseed: {seed}\n")
    job = tmp_path / "sweep" / "4"  # found no wrong belief
    job.mkdir()
    (job / "metrics.json").write_text("{}")
    (job / "config.yaml").write_text("name: C\nseed: 1\n")
    (job / "beliefs.jsonl").write_text("")
    cfg = {"runs": [str(tmp_path / "sweep")], "output_dir": str(tmp_path / "union")}
    assert join(OmegaConf.create({**cfg, "seed": 1})) == 3
    # "How many?" about image 1 counts once, though both models believe it.
    figures = json.loads((tmp_path / "union" / "metrics.json").read_text())
    assert figures["challenge/challenge"] == 3
    assert figures["challenge/challenge_images"] == 2
    written = json.loads(
        (tmp_path / "union" / "challenge" / "questions_challenge.json").read_text()
    )
    believed = {
        (one["image_id"], one["question"]): set(one["believed_by"]) for one in written["questions"]
    }
    assert believed == {(1, "How many?"): {"A", "B"}, (1, "Who?"): {"A"}, (2, "How many?"): {"B"}}
    assert join(OmegaConf.create({**cfg, "seed": 2})) == 5
    with pytest.raises(UserError, match=r"no finished job with seed=3, only seed=1, 2$"):
        join(OmegaConf.create({**cfg, "seed": 3}))


def test_different_images_are_not_joined(tmp_path: Path) -> None:
    roots = {}
    for name in ("teal", "red"):
        split = _split(tmp_path / f"{name}_images", name)
        roots[name] = tmp_path / name
        write_challenge(roots[name], [replace(BASE, type="irrelevant")], split, None)
    with pytest.raises(DataError, match=r"image 1 differs between .*teal.* and .*red"):
        join_challenges(tmp_path / "union", roots)
    with pytest.raises(DataError, match="no challenging set has a question"):
        join_challenges(tmp_path / "none", {"A": tmp_path})
