import json
from pathlib import Path

import pytest
from toy_diagnosis import toy_scene

from ivqa.data.scenes import Oracle, Scene
from ivqa.data.validation import DataError
from ivqa.diagnosis import (
    Belief,
    apply_annotations,
    read_beliefs,
    shares_of_types,
    type_of,
    typed_by_oracle,
)


def _belief(question: str, answer: str) -> Belief:
    return Belief(1, answer, question, 0.5, -3.0, 0.9, "rl")


def test_the_four_types_by_the_three_answers() -> None:
    kinds = {
        (relevant, same, correct): type_of(relevant=relevant, same_fact=same, correct=correct)
        for relevant in (True, False)
        for same in (True, False)
        for correct in (True, False)
    }
    assert kinds[True, True, True] == "rephrase"
    assert kinds[True, False, True] == "complementary"
    assert kinds[True, False, False] == "adversarial"
    assert {kind for key, kind in kinds.items() if not key[0]} == {"irrelevant"}


def test_the_oracle_types_beliefs_exactly() -> None:
    scene: Scene = toy_scene()
    references = {(1, "red"): ["What color is the star?"], (1, "yes"): ["Is there a star?"]}
    beliefs = [
        _belief("Which color is the star?", "red"),  # the same program in other words
        _belief("Do you see any hearts?", "yes"),
        _belief("What color is the heart?", "red"),  # it is blue
        _belief("What color is the cross?", "red"),  # there is none
        _belief("Red the is star?", "red"),
    ]
    typed = typed_by_oracle(beliefs, Oracle({1: scene}), references)
    kinds = ["rephrase", "complementary", "adversarial", "irrelevant", None]
    assert [belief.type for belief in typed] == kinds
    assert [belief.type_by for belief in typed] == ["oracle"] * 4 + [None]
    shares = shares_of_types(typed)
    assert shares["beliefs/correct"] == 0.5
    assert sum(shares[f"beliefs/{kind}"] for kind in kinds[:4]) == 1


def test_annotations_of_people_decide_by_majority(tmp_path: Path) -> None:
    beliefs = [_belief("Is it red?", "yes"), _belief("Is it blue?", "no")]
    votes = [(True, True, True), (True, True, True), (False, False, False)]
    names = ("relevant", "same_fact", "correct")
    key = {"image_id": 1, "answer": "yes", "question": "Is it red?"}
    records = [{**key, **dict(zip(names, vote, strict=True))} for vote in votes]
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(records))
    first, second = apply_annotations(beliefs, file)
    assert (first.type, first.type_by) == ("rephrase", "human")
    assert second.type is None

    file.write_text(json.dumps([{**records[0], "question": "Why?"}]))
    with pytest.raises(DataError, match=r"record 1: 'Why\?' is no belief"):
        apply_annotations(beliefs, file)
    file.write_text("[{}]")
    with pytest.raises(DataError, match="lacks 'image_id'"):
        apply_annotations(beliefs, file)


def test_beliefs_survive_the_file_and_a_broken_line_is_named(tmp_path: Path) -> None:
    beliefs = [_belief("Is it red?", "yes"), _belief("Où?", "là")]
    file = tmp_path / "beliefs.jsonl"
    file.write_text("".join(belief.line() for belief in beliefs))
    assert read_beliefs(file) == beliefs
    file.write_text(beliefs[0].line() + '{"image_id": 3\n')
    with pytest.raises(DataError, match="line 2"):
        read_beliefs(file)
