"""Noise by other wordings of the same question."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ivqa.data import DataError, VQADataset
from ivqa.errors import UserError
from ivqa.robustness import Rephrasing
from ivqa.scenes import generate_scenes, oracle_of
from ivqa.text.tokens import tokenise

WORDINGS = {
    "Is the dog red?": ["Does the dog look red?", "is the DOG red", "Is the color of the dog red?"],
    "Why?": [],
}


@cache
def _edits(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The edit distance by its recursive definition."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        _edits(first[1:], second) + 1,
        _edits(first, second[1:]) + 1,
        _edits(first[1:], second[1:]) + (first[0] != second[0]),
    )


def _file(folder: Path, content: Any) -> str:
    (folder / "wordings.json").write_text(json.dumps(content))
    return str(folder / "wordings.json")


def test_every_wording_of_the_grammar_has_the_answer_of_its_question(tmp_path: Path) -> None:
    root = generate_scenes(tmp_path, images={"val": 60}, workers=1, progress=False)
    dataset = VQADataset(root, train=None, val="val", test=None)
    split, oracle = dataset.split("val"), oracle_of(dataset, "val")
    assert oracle is not None
    noise, rephrased = Rephrasing(levels=4), 0
    levels = noise.disturbed(split.questions, [])
    for row, (image, question) in enumerate(zip(split.image_ids, split.questions, strict=True)):
        truth = oracle.judge(int(image), question)
        for text in (
            *(level[row] for level in levels),
            *(two for _, two in noise.ordered(question)),
        ):
            assert oracle.judge(int(image), text) == truth, (question, text)
        words = [tuple(tokenise(text)) for text in (question, *(level[row] for level in levels))]
        distances = [_edits(words[0], own) for own in words[1:]]
        assert distances == sorted(distances)
        rephrased += distances[0] > 0
    figures = noise.figures(split.questions, [])
    assert figures["not_rephrased"] == len(split) - rephrased
    assert rephrased > 0.95 * len(split)
    assert figures["word_edits_1"] < figures["word_edits_4"]
    # A seed gives the same wordings in every call, whatever the other questions are.
    again = Rephrasing(levels=4).disturbed(split.questions[::-1], [])
    assert [level[::-1] for level in again] == levels
    assert Rephrasing(levels=4, seed=1).disturbed(split.questions, []) != levels


def test_levels_spread_over_the_wordings_of_a_file(tmp_path: Path) -> None:
    # Distances 1, 2, 3, 4 and 5, not in this order, and a repetition of the nearest.
    texts = ["a b c q r s t", "a b c x", "a b c z z", "A b C x?", "a b c q r s", "a b c u v w"]
    path = _file(tmp_path, {"A b c d?": [*texts, "b"]})
    noise = Rephrasing(path, levels=3)
    assert noise.ordered("a B c d") == [
        (1, "a b c x"),
        (2, "a b c z z"),
        (3, "a b c q r s"),
        (3, "a b c u v w"),
        (3, "b"),
        (4, "a b c q r s t"),
    ]
    questions = ["a B c d", "Who?"]
    # Of six wordings the first, the third (5 * 1 / 2, rounded down) and the last.
    assert noise.disturbed(questions, []) == [
        ["a b c x", "Who?"],
        ["a b c q r s", "Who?"],
        ["a b c q r s t", "Who?"],
    ]
    expected = {"not_rephrased": 1, "word_edits_1": 1, "word_edits_2": 3, "word_edits_3": 4}
    assert noise.figures(questions, []) == expected
    assert Rephrasing(path, levels=1).disturbed(questions, []) == [["a b c x", "Who?"]]
    assert Rephrasing(path).figures(["Who?"], []) == {"not_rephrased": 1}


def test_a_wording_with_the_same_words_is_none(tmp_path: Path) -> None:
    noise = Rephrasing(_file(tmp_path, WORDINGS), levels=2)
    nearest, farthest = noise.disturbed(["Is the dog red?", "Why?"], [])
    assert nearest == ["Does the dog look red?", "Why?"]
    assert farthest == ["Is the color of the dog red?", "Why?"]


def test_vqa_rephrasings_name_their_question(tmp_path: Path) -> None:
    entries = [
        {"question_id": 1, "image_id": 5, "question": "What is it?"},
        {"question_id": 11, "image_id": 5, "question": "What do you see?", "rephrasing_of": 1},
        {"question_id": 12, "image_id": 5, "question": "What is this?", "rephrasing_of": 1},
        {"question_id": 2, "image_id": 6, "question": "what is it"},
        {"question_id": 21, "image_id": 6, "question": "It is what?", "rephrasing_of": 2},
    ]
    noise = Rephrasing(_file(tmp_path, {"questions": entries}))
    assert noise.ordered("What is it?") == [
        (1, "What is this?"),
        (2, "It is what?"),
        (3, "What do you see?"),
    ]
    noise = Rephrasing(_file(tmp_path, {"questions": entries[:3] + entries[4:]}))
    with pytest.raises(DataError, match="rephrasing_of names question 2, which is not in the file"):
        noise.disturbed(["What is it?"], [])
    noise = Rephrasing(_file(tmp_path, {"questions": [entries[0], {"question_id": 3}]}))
    with pytest.raises(DataError, match=r"entry 1 of 'questions' is not .*KeyError\('question'\)"):
        noise.disturbed(["What is it?"], [])


@pytest.mark.parametrize("content", [{}, [], {"Why?": "How?"}, {"Why?": [1]}, {"questions": 1}])
def test_another_file_is_refused(content: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no wordings; it must be an object of lists"):
        Rephrasing(_file(tmp_path, content)).check(["Why?"], [])


def test_questions_without_any_wording_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none of the 2 questions, such as 'Who ran\?', has"):
        Rephrasing().check(["Who ran?", "Why?"], [])
    with pytest.raises(UserError, match=r"wording in .*wordings.json; pass a file"):
        Rephrasing(_file(tmp_path, WORDINGS)).check(["Why?"], [])
    Rephrasing().check(["Who ran?", "Is it raining?"], [])
    Rephrasing().check([], [])
