"""In the challenging set exactly the answers that the oracle accepts score 1."""

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ivqa.data import VQADataset, VQASplit
from ivqa.diagnosis import Belief
from ivqa.diagnosis.beliefs.challenge import write_challenge
from ivqa.metrics import vqa_accuracies
from ivqa.scenes import SceneOracle
from ivqa.scenes.programs import SYNONYMS
from ivqa.scenes.world import SHAPES, THING_ATTRIBUTES, VALUES, sample_scene
from ivqa.text.normalisation import normalise_answer

QUESTIONS = [
    *(f"What {name} is the {shape}?" for name, shape in product(THING_ATTRIBUTES[1:], SHAPES)),
    *(f"What shape is the {color} thing?" for color in VALUES["color"]),
    *(f"How many {shape}s are there?" for shape in SHAPES),
    *(f"Is there a {shape}?" for shape in SHAPES),
    "Where is this?",
    "How is the weather?",
]
POSSIBLE = {"yes", "no", *map(str, range(7))}
POSSIBLE |= {value for values in VALUES.values() for value in values}
POSSIBLE |= {word for synonyms in SYNONYMS.values() for word in synonyms}


@pytest.fixture(scope="module")
def oracle() -> SceneOracle:
    rng = random.Random(0)
    return SceneOracle({image_id: sample_scene(rng) for image_id in range(40)})


@pytest.fixture(scope="module")
def challenge(oracle: SceneOracle, tmp_path_factory: pytest.TempPathFactory) -> VQASplit:
    root = tmp_path_factory.mktemp("challenge")
    beliefs = [
        Belief(image_id, "nothing", question, 0.5, -1.0, 0.9, "rl", "adversarial", "oracle")
        for image_id, question in product(oracle.scenes, QUESTIONS)
        if oracle.judge(image_id, question).premise
    ]
    none = np.zeros(0, dtype=np.int64)
    split = VQASplit("test", none, none, [], [], [], [], [])
    assert write_challenge(root, beliefs, split, oracle) == len(beliefs)
    return VQADataset(root, train=None, val=None, test="challenge").split("test")


def _accepted(oracle: SceneOracle, challenge: VQASplit) -> list[frozenset[str]]:
    questions = zip(challenge.image_ids.tolist(), challenge.questions, strict=True)
    return [oracle.judge(image_id, question).acceptable for image_id, question in questions]


def test_every_accepted_answer_scores_one(oracle: SceneOracle, challenge: VQASplit) -> None:
    accepted = _accepted(oracle, challenge)
    assert {1, 2, 3} <= {len(answers) for answers in accepted}
    assert max(len(answers) for answers in accepted) > 5  # two patterns and their synonyms
    cases = [(row, answer) for row, answers in enumerate(accepted) for answer in answers]
    scores = vqa_accuracies(
        [answer for _, answer in cases], [challenge.answers[row] for row, _ in cases]
    )
    assert scores.tolist() == [1.0] * len(cases)
    for answers, main in zip(accepted, challenge.main_answers, strict=True):
        assert main in answers


def test_every_other_answer_scores_zero(oracle: SceneOracle, challenge: VQASplit) -> None:
    cases = [
        (row, answer)
        for row, answers in enumerate(_accepted(oracle, challenge))
        for answer in sorted(POSSIBLE - answers)
        # The official evaluation normalises "none", an answer for plain things, to 0.
        if normalise_answer(answer) not in map(normalise_answer, answers)
    ]
    scores = vqa_accuracies(
        [answer for _, answer in cases], [challenge.answers[row] for row, _ in cases]
    )
    assert len(cases) > 10 * len(challenge)
    assert not scores.any()


def test_the_official_program_agrees(oracle: SceneOracle, challenge: VQASplit) -> None:
    """It leaves every annotator out in turn, whatever their number."""
    for given, accepted in zip(challenge.answers, _accepted(oracle, challenge), strict=True):
        for answer in accepted:
            for left_out in range(len(given)):
                others = given[:left_out] + given[left_out + 1 :]
                assert others.count(answer) >= 3


def test_what_has_no_right_answer_is_kept_apart(oracle: SceneOracle, tmp_path: Path) -> None:
    def belief(question: str, kind: str) -> Belief:
        return Belief(3, "nothing", question, 0.5, -1.0, 0.9, "rl", kind, "oracle")

    asked = [
        belief("Is there a moon?", "adversarial"),  # the grammar has no moons
        belief("Where is this?", "irrelevant"),
        belief("How is the weather?", "adversarial"),
        belief("Is there a star?", "complementary"),
    ]
    none = np.zeros(0, dtype=np.int64)
    split = VQASplit("test", none, none, [], [], [], [], [])
    assert write_challenge(tmp_path / "known", asked, split, oracle) == 1
    known = VQADataset(tmp_path / "known", train="irrelevant", val="challenge")
    assert known.split("challenge").questions == ["How is the weather?"]
    assert known.split("irrelevant").questions == ["Is there a moon?", "Where is this?"]
    assert write_challenge(tmp_path / "unknown", asked, split, None) == 0
    unknown = VQADataset(tmp_path / "unknown", train="irrelevant", val="challenge")
    assert len(unknown.split("irrelevant")) == 3


def test_beliefs_of_all_kinds_keep_their_kind(oracle: SceneOracle, tmp_path: Path) -> None:
    def belief(question: str, kind: str, answer: str) -> Belief:
        return Belief(3, answer, question, 0.5, -1.0, 0.9, "rl", kind, "oracle")

    weather = oracle.judge(3, "How is the weather?")
    asked = [
        belief("How is the weather?", "adversarial", "nothing"),
        belief("Where is this?", "complementary", "here"),
        belief("Is there a moon?", "irrelevant", "yes"),
    ]
    none = np.zeros(0, dtype=np.int64)
    split = VQASplit("test", none, none, [], [], [], [], [])
    write_challenge(tmp_path / "known", asked, split, oracle)
    known = VQADataset(tmp_path / "known", train=None, val=None, test="beliefs")
    assert known.split("test").kinds == ["adversarial", "complementary"]
    assert known.split("test").main_answers[0] == weather.answer
    assert known.split("test").main_answers[1] == oracle.judge(3, "Where is this?").answer
    assert known.split("irrelevant").kinds == ["irrelevant"]
    assert known.split("challenge").kinds == ["adversarial"]
    # Without an oracle, only the answer of a correct belief is known: its own.
    write_challenge(tmp_path / "unknown", asked, split, None)
    unknown = VQADataset(tmp_path / "unknown", train=None, val=None, test="beliefs").split("test")
    assert unknown.questions == ["Where is this?"]
    assert unknown.answers == [["here"] * 4]
