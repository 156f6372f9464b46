"""Polls about the objects in images, compared with what can be counted by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import f1_score, precision_score, recall_score

from ivqa.data import VQADataset, VQASplit
from ivqa.data.results import read_results
from ivqa.data.validation import DataError
from ivqa.interchange.polls import Poll, draw_polls, read_instances, write_polls
from ivqa.vqa.scores import score_answers

# cup: 4 images, table: 3, chair: 3, dog: 2, apple: 1, sofa: 1
OBJECTS = {
    1: {"cup", "table"},
    2: {"cup", "table", "apple"},
    3: {"cup", "chair"},
    4: {"cup", "chair", "dog"},
    5: {"dog", "chair", "sofa"},
    6: {"table"},
}


def _absent(polls: list[Poll], image: int) -> list[str]:
    return [poll.object for poll in polls if poll.image_id == image and not poll.present]


def test_popular_objects_are_those_of_most_images() -> None:
    polls = draw_polls(OBJECTS, "popular", num_objects=2)
    # Image 6 has one object. Ties of chair and table do not occur for image 5: cup 4, table 3.
    assert {poll.image_id for poll in polls} == {1, 2, 3, 4, 5}
    assert _absent(polls, 1) == ["chair", "dog"]
    assert _absent(polls, 4) == ["table", "apple"]  # apple and sofa: one image each, by name
    assert _absent(polls, 5) == ["cup", "table"]


def test_an_adversarial_object_is_the_most_frequent_companion_of_the_present_one() -> None:
    """As in POPE's code, for each present object on its own.

    Companions: cup: table 2, chair 2, apple 1, dog 1; table: cup 2, apple 1; chair: cup 2, dog 2,
    sofa 1; dog: chair 2, cup 1, sofa 1; apple: cup 1, table 1; sofa: dog 1, chair 1.
    """
    random: dict[tuple[int, str], set[str]] = {}
    for seed in range(60):
        polls = draw_polls(OBJECTS, "adversarial", num_objects=2, seed=seed)
        pairs = list(zip(polls[::2], polls[1::2], strict=True))
        for image, wanted in (
            (1, {"cup": "chair", "table": "apple"}),
            (3, {"cup": "table", "chair": "dog"}),
        ):
            assert {one.object: two.object for one, two in pairs if one.image_id == image} == wanted
        taken = None
        for one, two in pairs:
            if one.image_id != 5:
                continue
            if one.object in ("chair", "dog") and taken != "cup":
                assert two.object == "cup"
            else:  # all companions are present, or cup has been asked about
                random.setdefault((5, one.object), set()).add(two.object)
            taken = two.object
    assert random[5, "dog"] == random[5, "chair"] == {"apple", "table"}
    assert random[5, "sofa"] == {"apple", "table", "cup"}


def test_each_image_has_as_many_present_as_absent_objects() -> None:
    for strategy in ("random", "popular", "adversarial"):
        polls = draw_polls(OBJECTS, strategy, num_objects=2, seed=3)
        for poll in polls:
            assert poll.present == (poll.object in OBJECTS[poll.image_id])
        for image in (1, 2, 3, 4, 5):
            own = [poll for poll in polls if poll.image_id == image]
            assert [poll.present for poll in own] == [True, False, True, False]
            assert len({poll.object for poll in own}) == 4


def test_the_strategies_share_images_and_present_objects() -> None:
    drawn = [
        list(draw_polls(OBJECTS, strategy, num_images=3, num_objects=2, seed=1))
        for strategy in ("random", "popular", "adversarial")
    ]
    present = [[poll for poll in polls if poll.present] for polls in drawn]
    assert present[0] == present[1] == present[2]
    assert len({poll.image_id for poll in present[0]}) == 3
    other = draw_polls(OBJECTS, "random", num_images=3, num_objects=2, seed=2)
    assert [poll for poll in other if poll.present] != present[0]


def test_random_objects_are_uniform() -> None:
    counts = dict.fromkeys({"chair", "dog", "apple", "sofa"}, 0)
    for seed in range(400):
        for name in _absent(draw_polls(OBJECTS, "random", num_objects=2, seed=seed), 1):
            counts[name] += 1
    # Two of four in each of 400 draws: 200 each; the standard deviation is 10.
    assert all(abs(count - 200) < 50 for count in counts.values())


def test_the_question_has_the_right_article() -> None:
    assert Poll(1, "apple", True).question == "Is there an apple in the image?"
    assert Poll(1, "dog", True).question == "Is there a dog in the image?"


def _root(tmp_path: Path) -> Path:
    images = tmp_path / "images" / "val"
    images.mkdir(parents=True)
    records = []
    for image in OBJECTS:
        Image.new("RGB", (4, 4)).save(images / f"COCO_val_{image:012d}.png")
        records.append({"question_id": image, "image_id": image, "question": "What?"})
    (tmp_path / "questions_val.json").write_text(json.dumps({"questions": records}))
    return tmp_path


def test_polls_are_a_data_root_and_a_file_of_pope(tmp_path: Path) -> None:
    split = VQADataset(_root(tmp_path / "data"), train=None, val="val").split("val")
    polls = draw_polls(OBJECTS, "popular", num_objects=2)
    write_polls(tmp_path / "polls", "popular", polls, split)
    lines = (tmp_path / "polls" / "pope_popular.json").read_text().splitlines()
    assert json.loads(lines[1]) == {
        "question_id": 2,
        "image": "COCO_val_000000000001.png",
        "text": "Is there a chair in the image?",
        "label": "no",
    }
    own = VQADataset(tmp_path / "polls", train=None, val=None, test="popular").split("test")
    assert own.questions == [poll.question for poll in polls]
    assert own.main_answers == ["yes" if poll.present else "no" for poll in polls]
    assert own.require_images().path(5).is_file()
    # What a model logs line by line, as POPE's evaluation reads it, gives the usual figures.
    rng = np.random.default_rng(0)
    said = rng.random(len(polls)) < 0.6
    answers = ["Yes, there is." if yes else "No." for yes in said]
    log = tmp_path / "answers.jsonl"
    log.write_text(
        "".join(
            json.dumps({"question": poll.question, "answer": answer}) + "\n"
            for poll, answer in zip(polls, answers, strict=True)
        )
    )
    assert read_results(log, own) == answers
    metrics = score_answers(own, answers)
    truth = [poll.present for poll in polls]
    assert metrics["polling/accuracy"] == pytest.approx(np.mean(said == truth))
    assert metrics["polling/precision"] == pytest.approx(precision_score(truth, said))
    assert metrics["polling/recall"] == pytest.approx(recall_score(truth, said))
    assert metrics["polling/f1"] == pytest.approx(f1_score(truth, said))
    assert metrics["polling/yes_ratio"] == pytest.approx(said.mean())


def test_coco_instances_are_read_and_other_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "instances.json"
    content = {
        "categories": [{"id": 3, "name": "cup"}, {"id": 9, "name": "dining table"}],
        "annotations": [{"image_id": 1, "category_id": one} for one in (3, 3, 9)],
    }
    file.write_text(json.dumps(content))
    assert read_instances(file) == {1: {"cup", "dining table"}}
    content["annotations"][0]["category_id"] = 4
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"instances\.json is not like COCO's"):
        read_instances(file)


@pytest.mark.parametrize(
    ("right", "said", "wanted"),
    [
        # One of two is right; nothing that says yes is wrong. F1 = 2 * 1 * .5 / 1.5.
        (["yes", "yes"], ["yes", "no"], (1 / 2, 1, 1 / 2, 2 / 3, 1 / 2)),
        (["no", "no"], ["yes", "no"], (1 / 2, 0, None, None, 1 / 2)),
        (["no"], ["no"], (1, None, None, None, 0)),
        (["Yes", "No"], ["Yes", "No"], (1, 1, 1, 1, 1 / 2)),  # MME and AMBER write capitals
        (["YES", "no "], ["yes", "yes"], (1 / 2, 1 / 2, 1, 2 / 3, 1)),
        (["Yes.", "No."], ["no", "yes"], (0, 0, 0, None, 1 / 2)),  # sentences, as in Visual7W
        (["yes", "maybe"], ["yes", "yes"], (None,) * 5),
    ],
)
def test_polls_of_one_class_and_with_capitals(
    right: list[str], said: list[str], wanted: tuple[float | None, ...]
) -> None:
    number = len(right)
    split = VQASplit(
        "val", np.arange(number), np.arange(number), ["Is it?"] * number,
        [[answer] for answer in right], right, ["yes/no"] * number, ["is it"] * number,
    )  # fmt: skip
    names = ("accuracy", "precision", "recall", "f1", "yes_ratio")
    figures = {f"polling/{n}": v for n, v in zip(names, wanted, strict=True) if v is not None}
    found = score_answers(split, said)
    values = {n: v for n, v in found.items() if n.startswith("polling")}
    bounds = {n for n in values if n.endswith(("_low", "_high"))}
    assert bounds == {f"{n}{end}" for n in figures for end in ("_low", "_high")}
    assert {n: values[n] for n in values.keys() - bounds} == pytest.approx(figures)


def test_images_are_drawn_at_random() -> None:
    objects = {image: {"cup", "dog"} if image % 2 else {"cat", "sofa"} for image in range(20)}
    drawn = [
        sorted({poll.image_id for poll in draw_polls(objects, "random", num_images=5,
                                                     num_objects=2, seed=seed)})
        for seed in range(4)
    ]  # fmt: skip
    assert list(range(5)) not in drawn
    assert len(set(map(tuple, drawn))) == 4
