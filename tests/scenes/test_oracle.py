"""The oracle agrees with the generator, understands all phrasings, and finds false premises."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.scenes import Scene, SceneOracle, parse
from ivqa.scenes.grammar import fill, realise
from ivqa.scenes.phrasings import fitting
from ivqa.scenes.programs import Noun, Program, Things, evaluate, make
from ivqa.scenes.questions import sample_contrast, sample_program
from ivqa.scenes.world import Thing, change_scene, sample_scene

SEEDS = st.integers(0, 10**9)

SCENE = Scene(
    "beach",
    "night",
    "rainy",
    (
        Thing("star", "yellow", "large", "striped", 0.1, 0.1),
        Thing("star", "red", "small", "plain", 0.6, 0.1),
        Thing("circle", "blue", "small", "dotted", 0.6, 0.6),
    ),
)
ORACLE = SceneOracle({7: SCENE})


@pytest.mark.parametrize("root_name", ["scenes_root", "balanced_root"])
def test_agrees_with_every_generated_answer(root_name: str, request: pytest.FixtureRequest) -> None:
    root = request.getfixturevalue(root_name)
    split, oracle = VQADataset(root).split("train"), SceneOracle.load(root, "train")
    judgements = oracle.judge_many(split.image_ids.tolist(), split.questions)
    assert [judgement.answer for judgement in judgements] == split.main_answers
    for judgement, answer in zip(judgements, split.main_answers, strict=True):
        assert judgement.premise
        assert answer in judgement.acceptable


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_every_phrasing_means_its_program(seed: int) -> None:
    rng = random.Random(seed)
    scene = sample_scene(rng)
    program = sample_program(rng, scene)
    for phrasing in fitting(program):
        question = fill(phrasing, program, rng)
        assert parse(question) == program, question
    for _ in range(5):
        assert parse(realise(program, rng)) == program


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_contrasts_differ(seed: int) -> None:
    rng = random.Random(seed)
    first = sample_scene(rng)
    second = change_scene(rng, first)
    program = sample_contrast(rng, first, second)
    if program is not None:
        assert evaluate(program, first).answer != evaluate(program, second).answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What color is the circle?", "blue"),
        ("what colour is circle", "blue"),
        ("How many stars are there?", "2"),
        ("How many hearts are there?", "0"),
        ("Is the circle below the red star?", "yes"),
        ("Is the red star above the circle?", "yes"),
        ("Is the red star under the circle?", "no"),
        ("What is to the left of the red star?", "star"),
        ("What color is the object left of the red star?", "yellow"),
        ("Are there more stars than circles?", "yes"),
        ("Are there fewer stars than circles?", "no"),
        ("Is the yellow star bigger than the circle?", "yes"),
        ("Does the star with stripes look large?", "yes"),
        ("Are the red star and the circle the same size?", "yes"),
        ("Is it raining?", "yes"),
        ("Was this picture taken at night?", "yes"),
        ("Where is this?", "beach"),
        ("What color is the leftmost thing?", "yellow"),
    ],
)
def test_answers(question: str, answer: str) -> None:
    judgement = ORACLE.judge(7, question)
    assert judgement.understood
    assert judgement.answer == answer


def test_synonyms_of_the_answer_are_acceptable() -> None:
    assert {"striped", "stripes"} <= ORACLE.judge(
        7, "What pattern does the yellow star have?"
    ).acceptable


@pytest.mark.parametrize(
    "question",
    [
        "What color is the heart?",
        "Is the heart left of the star?",
        "How many stars are left of the heart?",
        "What is left of the yellow star?",
        "Is the circle bigger than the square?",
        "Does the plain circle look red?",
    ],
)
def test_false_premises_are_found(question: str) -> None:
    judgement = ORACLE.judge(7, question)
    assert judgement.understood
    assert judgement.premise is False
    assert judgement.answer is None


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "star",
        "What color is is the star?",
        "Color what is the star?",
        "What color is the?",
        "Is there a red red star?",
        "How many are there?",
        "What color is the dog?",
        "Is the star left the circle?",
        "What color is the star is the star?",
    ],
)
def test_nonsense_is_not_understood(question: str) -> None:
    assert ORACLE.judge(7, question).understood is False


def test_most_damaged_questions_are_not_understood(scenes_root: Path) -> None:
    rng = random.Random(0)
    questions = VQADataset(scenes_root).split("train").questions
    valid = 0
    for question in questions:
        words = question.rstrip("?").split()
        first, second = rng.sample(range(len(words)), 2)
        words[first], words[second] = words[second], words[first]
        # A swap can give another valid question: "Is the star left of the heart?" and "Is the
        # heart left of the star?".
        valid += parse(" ".join(words)) not in (None, parse(question))
    assert valid / len(questions) < 0.15


def test_an_ambiguous_phrase_accepts_all_its_things() -> None:
    judgement = ORACLE.judge(7, "What color is the star?")
    assert judgement.premise
    assert judgement.acceptable == {"yellow", "red"}


def test_equal_meanings_have_one_program() -> None:
    star, heart = Things(Noun(shape="star")), Things(Noun(shape="heart"))
    assert make("relate", subject=star, other=heart, relation="right") == make(
        "relate", subject=heart, other=star, relation="left"
    )
    assert make("smaller", subject=star, other=heart) == make("larger", subject=heart, other=star)
    assert make("same", subject=star, other=heart, attribute="color") == make(
        "same", subject=heart, other=star, attribute="color"
    )
    assert Program("exist", star) != Program("exist", heart)


def test_the_message_names_an_unknown_image() -> None:
    with pytest.raises(KeyError, match="does not know image 8"):
        ORACLE.judge(8, "Where is this?")


def test_other_data_have_no_oracle(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only generated scenes"):
        SceneOracle.load(tmp_path, "train")


def test_scenes_are_the_same_after_json() -> None:
    assert Scene.from_json(SCENE.to_json()) == SCENE
    assert replace(SCENE, place="city") != SCENE
