"""The items of a human study, drawn from small runs whose scores are computed by hand."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ivqa.data import DataError, VQADataset, VQASplit
from ivqa.errors import UserError
from ivqa.metrics import CiderStatistics, cider_scores, meteor_scores
from ivqa.store.files import FileError, write_json
from ivqa.tasks.human_study.items import BestQuestion, Study, StudyItem, draw_study, read_questions

# question id, image id, answer, question; two pairs of image 1, one of each other image.
PAIRS = [
    (10, 1, "no", "Is it a dog?"),
    (11, 1, "red", "What color is the cat?"),
    *(
        (10 + image, image, str(image), f"How many of the {image} are there?")
        for image in range(2, 9)
    ),
]


@pytest.fixture
def split(tmp_path: Path) -> VQASplit:
    questions = [{"question_id": a, "image_id": b, "question": d} for a, b, _, d in PAIRS]
    annotations = [
        {"question_id": a, "image_id": b, "answers": [{"answer": c}] * 10} for a, b, c, _ in PAIRS
    ]
    write_json(tmp_path / "root" / "questions_val.json", {"questions": questions})
    write_json(tmp_path / "root" / "annotations_val.json", {"annotations": annotations})
    return VQADataset(tmp_path / "root", train=None, val="val").split("val")


def _line(at: int, text: str, verdict: str | None = "consistent", **changes: Any) -> dict[str, Any]:
    keys = ("question_id", "image_id", "answer", "reference")
    record = dict(zip(keys, PAIRS[at], strict=True))
    return record | {"best": {"text": text, "verdict": verdict}} | changes


def _run(folder: Path, lines: list[Any], **metrics: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


def _runs(tmp_path: Path, verdict: str | None = "other answer") -> dict[str, Path]:
    """Model a asks the questions of the data set, model b the same in capitals but for two."""
    own = {0: "is it a cat", 2: "Why?"}
    first = [_line(at, pair[3]) for at, pair in enumerate(PAIRS)]
    second = [_line(at, own.get(at, pair[3].upper()), verdict) for at, pair in enumerate(PAIRS)]
    return {
        "a": _run(tmp_path / "a", first, cider=0.5),
        "b": _run(tmp_path / "b", second[::-1], cider=0.25),
    }


def test_each_image_has_one_pair_and_equal_questions_are_one_item(
    split: VQASplit, tmp_path: Path
) -> None:
    runs = _runs(tmp_path)
    pairs = set()
    for seed in range(8):
        study = draw_study(runs, split, num_images=None, seed=seed)
        assert study.metrics == {"a": {"cider": 0.5}, "b": {"cider": 0.25}}
        assert study.runs == {"a": str(tmp_path / "a"), "b": str(tmp_path / "b")}
        found = {(item.image_id, item.question): item.models for item in study.items}
        dog = (1, "Is it a dog?") in found
        pairs.add(dog)
        expected = {
            (image, f"How many of the {image} are there?"): ["a", "b"] for image in range(3, 9)
        }
        expected |= {(2, "How many of the 2 are there?"): ["a"], (2, "Why?"): ["b"]}
        if dog:
            expected |= {(1, "Is it a dog?"): ["a"], (1, "Is it a cat?"): ["b"]}
        else:
            expected |= {(1, "What color is the cat?"): ["a", "b"]}
        assert found == expected
        known = {(image, answer): text for _, image, answer, text in PAIRS}
        assert all(known[item.image_id, item.answer] == item.reference for item in study.items)
    assert pairs == {True, False}


def test_ids_and_order_depend_on_the_seed_alone(split: VQASplit, tmp_path: Path) -> None:
    runs = _runs(tmp_path)
    study = draw_study(runs, split, num_images=None, seed=1)
    renamed = {"y": runs["b"], "x": runs["a"]}
    for named in (runs, renamed):
        again = draw_study(named, split, num_images=None, seed=1)
        assert again.id == study.id
        assert [item.id for item in again.items] == [item.id for item in study.items]
    other = draw_study(runs, split, num_images=None, seed=2)
    assert other.id != study.id
    assert not {item.id for item in other.items} & {item.id for item in study.items}
    images = [[item.image_id for item in own.items] for own in (study, other)]
    assert images[0] != sorted(images[0])
    assert images[0] != images[1]


@pytest.mark.parametrize(("wanted", "number"), [(None, 8), (3, 3), (7, 7), (8, 8), (99, 8)])
def test_a_number_of_images_is_drawn(
    wanted: int | None, number: int, split: VQASplit, tmp_path: Path
) -> None:
    study = draw_study(_runs(tmp_path), split, num_images=wanted, seed=1)
    assert len({item.image_id for item in study.items}) == number


def test_only_pairs_that_all_runs_have_are_drawn(split: VQASplit, tmp_path: Path) -> None:
    runs = _runs(tmp_path)
    lines = (runs["b"] / "questions.jsonl").read_text().splitlines()
    (runs["b"] / "questions.jsonl").write_text("\n".join(lines[:2]))  # in reversed order
    study = draw_study(runs, split, num_images=None, seed=1)
    assert {item.image_id for item in study.items} == {7, 8}
    assert all(item.models == ["a", "b"] for item in study.items)


def _item(study: Study, question: str) -> StudyItem:
    (found,) = [item for item in study.items if item.question == question]
    return found


def test_values_are_those_computed_by_hand(split: VQASplit, tmp_path: Path) -> None:
    lines = {"a": [_line(0, "Is it a dog?")], "b": [_line(0, "Is it a cat?", "other answer")]}
    rest = [_line(at, pair[3]) for at, pair in enumerate(PAIRS)][2:]
    runs = {name: _run(tmp_path / name, own + rest) for name, own in lines.items()}
    study = draw_study(runs, split, num_images=None, seed=1)
    right, wrong = (_item(study, f"Is it a {animal}?").values for animal in ("dog", "cat"))
    for name in ("bleu1", "bleu2", "bleu3", "bleu4", "rouge_l"):
        assert right[name] == pytest.approx(1)
    # Of its words 3 of 4 are right, of its pairs 2 of 3, of its triples 1 of 2, of one none.
    assert wrong["bleu1"] == pytest.approx(3 / 4)
    assert wrong["bleu2"] == pytest.approx((3 / 4 * 2 / 3) ** (1 / 2))
    assert wrong["bleu3"] == pytest.approx((3 / 4 * 2 / 3 * 1 / 2) ** (1 / 3))
    assert wrong["bleu4"] < 0.01
    assert wrong["rouge_l"] == pytest.approx(3 / 4)
    # Document frequencies are those of all questions of the run, drawn or not.
    statistics = CiderStatistics.of([[line["reference"]] for line in lines["a"] + rest])
    question, reference = ["is it a cat"], [["is it a dog"]]
    assert wrong["cider"] == pytest.approx(cider_scores(question, reference, statistics)[0])
    assert wrong["meteor"] == pytest.approx(meteor_scores(question, reference)[0])
    few = draw_study(runs, split, num_images=2, seed=1)
    for item in few.items:
        assert item.values == pytest.approx(_item(study, item.question).values)
    assert (right["best/consistent"], wrong["best/consistent"]) == (1, 0)


def test_without_an_oracle_no_question_is_consistent_or_not(
    split: VQASplit, tmp_path: Path
) -> None:
    study = draw_study(_runs(tmp_path, None), split, num_images=None, seed=1)
    assert not any("best/consistent" in item.values for item in study.items)


def test_a_study_is_read_as_it_was_written(split: VQASplit, tmp_path: Path) -> None:
    study = draw_study(_runs(tmp_path), split, num_images=None, seed=1)
    folder = tmp_path / "study"
    folder.mkdir()
    assert study.write(folder) == folder / "key.json"
    assert Study.read(folder) == study
    with pytest.raises(UserError, match=r"no key\.json"):
        Study.read(tmp_path)
    stored = asdict(study)
    for changed in (
        {key: value for key, value in stored.items() if key != "items"},
        {key: value for key, value in stored.items() if key != "runs"},
        stored | {"more": 1},
        stored | {"items": [{"id": "x"}]},
    ):
        write_json(folder / "key.json", changed)
        with pytest.raises(FileError, match=r"key\.json is not the key of a human study"):
            Study.read(folder)


def test_questions_are_read_line_by_line(split: VQASplit, tmp_path: Path) -> None:
    run = _run(tmp_path / "run", [_line(1, "Why?", None), _line(0, "Is it?")])
    found = read_questions(run, split)
    assert found == [
        BestQuestion(11, 1, "red", "What color is the cat?", "Why?", None),
        BestQuestion(10, 1, "no", "Is it a dog?", "Is it?", "consistent"),
    ]
    assert found[1].pair == PAIRS[0]


@pytest.mark.parametrize(
    "changes",
    [{"question_id": 99}, {"image_id": 2}, {"answer": "yes"}, {"reference": "Is it a cat?"}],
)
def test_questions_about_other_data_are_refused(
    changes: dict[str, Any], split: VQASplit, tmp_path: Path
) -> None:
    run = _run(tmp_path / "run", [_line(1, "Why?"), _line(0, "Why?", **changes)])
    with pytest.raises(DataError, match=r"questions\.jsonl, line 2: question (10|99) is not one"):
        read_questions(run, split)


@pytest.mark.parametrize(
    "line",
    [
        *(_line(0, "Why?", **{key: None}) for key in ("answer", "reference", "image_id", "best")),
        _line(0, "Why?", question_id="10"),
        _line(0, "Why?", image_id=True),
        _line(0, "Why?", best={"text": 1, "verdict": None}),
        _line(0, "Why?", best={"text": "Why?"}),
        {"best": {"text": "Why?", "verdict": None}},
        [1],
    ],
)
def test_a_line_of_another_kind_is_refused(line: Any, split: VQASplit, tmp_path: Path) -> None:
    run = _run(tmp_path / "run", [line])
    with pytest.raises(DataError, match=r"line 1: not a line that evaluate\.py writes"):
        read_questions(run, split)


def test_runs_without_a_common_pair_or_file_are_refused(split: VQASplit, tmp_path: Path) -> None:
    runs = {str(at): _run(tmp_path / str(at), [_line(at, "Why?")]) for at in (0, 1)}
    with pytest.raises(DataError, match=f"{tmp_path / '0'}, {tmp_path / '1'} have no image-answer"):
        draw_study(runs, split, num_images=None, seed=1)
    with pytest.raises(FileError, match=r"no questions\.jsonl"):
        read_questions(tmp_path, split)
