"""Wrong beliefs become questions with right answers."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from toy_diagnosis import ANSWERS, toy_scene
from toy_root import OWN_QUESTIONS, toy_root

from ivqa.data.batches.columns import Entry
from ivqa.diagnosis import (
    NO_SUCH_THING,
    Belief,
    confirmed_questions,
    corrected_questions,
    noisy_questions,
    ordinary_questions,
    ordinary_share,
    right_answers,
)
from ivqa.scenes import SceneOracle, parse
from ivqa.scenes.programs import evaluate
from ivqa.store.files import write_json

ORACLE = SceneOracle({1: toy_scene()})  # a red star left of a blue heart
HEART = Belief(1, "red", "What color is the heart?", 0.9, -1.0, 0.9, "rl", "adversarial", "oracle")
CIRCLE = replace(HEART, question="What color is the circle?", type="irrelevant")
STAR = replace(HEART, question="What color is the star?", type="rephrase")
UNKNOWN = replace(HEART, question="Color color?", type=None, type_by=None)
BELIEFS = [HEART, CIRCLE, STAR, UNKNOWN, HEART]


def _check_numbers(entries: list[Entry]) -> None:
    assert [entry.question_id for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.name for entry in entries] == [str(entry.question_id) for entry in entries]


def _asked(irrelevant: str, seed: int = 0) -> list[tuple[int, str, str]]:
    right = right_answers(ORACLE, None)  # type: ignore[arg-type]  # the oracle needs no split
    entries = corrected_questions(
        BELIEFS,
        right,
        irrelevant=irrelevant,  # type: ignore[arg-type]
        known=ANSWERS,
        oracle=ORACLE,
        seed=seed,
    )
    _check_numbers(entries)
    return [(entry.image_id, entry.question, *(entry.answers or ())) for entry in entries]


def test_wrong_beliefs_get_right_answers() -> None:
    heart = (1, "What color is the heart?", "blue")
    assert _asked("leave_out") == [heart]
    assert _asked("no_such_thing") == [heart, (1, "What color is the circle?", NO_SUCH_THING)]


def test_uniform_answers_are_drawn_from_those_of_the_model() -> None:
    drawn = Counter(_asked("uniform", seed)[1][2] for seed in range(300))
    assert set(drawn) == set(ANSWERS.answers)
    assert min(drawn.values()) > 60  # 100 each are expected; 60 is 5 standard deviations below
    assert _asked("uniform", 3) == _asked("uniform", 3)


def test_a_correction_has_the_layout_of_its_question() -> None:
    right = right_answers(ORACLE, None)  # type: ignore[arg-type]
    settings = {"irrelevant": "leave_out", "known": ANSWERS}
    (with_oracle,) = corrected_questions([HEART], right, oracle=ORACLE, **settings)  # type: ignore[arg-type]
    (without,) = corrected_questions([HEART], right, **settings)  # type: ignore[arg-type]
    assert with_oracle.layout == ["_Find", "_Describe"]
    assert without.layout is None


def test_without_an_oracle_annotators_correct(tmp_path: Path) -> None:
    dataset = toy_root(tmp_path, scenes=False)
    right = right_answers(None, dataset.split("val"))
    assert right(1, "what color is the star") == ["red"] * 10
    assert right(1, "What color is the heart?") is None
    wrong = replace(HEART, answer="blue", question="What color is the star?")
    entries = corrected_questions([wrong, HEART], right, irrelevant="leave_out", known=ANSWERS)
    assert [(entry.question, entry.answers) for entry in entries] == [
        ("What color is the star?", ["red"] * 10)
    ]


def test_right_beliefs_keep_their_answers(tmp_path: Path) -> None:
    person = replace(UNKNOWN, answer="no", type="complementary", type_by="human")
    right = right_answers(ORACLE, None)  # type: ignore[arg-type]
    corrected = [Entry("1", 1, 2, STAR.question, ["blue"])]  # the same text about another image
    entries = confirmed_questions([*BELIEFS, STAR, person], right, corrected, oracle=ORACLE)
    _check_numbers(entries)
    found = {entry.question: (entry.image_id, entry.answers, entry.layout) for entry in entries}
    assert len(entries) == len(found) == 2
    assert found["What color is the star?"] == (1, ["red"], ["_Find", "_Describe"])
    assert found["Color color?"] == (1, ["no"], None)  # the oracle does not understand it
    # A question that is corrected already is left out; of the same text and image, one remains.
    same = Entry("1", 1, 1, STAR.question, ["blue"])
    (entry,) = confirmed_questions([STAR, person, person], right, [same])
    assert entry.question == "Color color?"
    # Annotators' ten answers are kept.
    annotated = right_answers(None, toy_root(tmp_path, scenes=False).split("val"))
    (entry,) = confirmed_questions([replace(STAR, answer="blue")], annotated, [])
    assert entry.answers == ["red"] * 10
    assert entry.layout is None


def test_right_beliefs_are_drawn_for_each_correction() -> None:
    right = right_answers(ORACLE, None)  # type: ignore[arg-type]  # the oracle needs no split
    texts = [f"What color is the {size}star?" for size in ("", "large ", "red ", "plain ")]
    beliefs = [replace(STAR, question=text) for text in texts]
    corrected = corrected_questions([HEART], right, irrelevant="leave_out", known=ANSWERS)
    assert len(corrected) == 1

    def drawn(most: float | None, seed: int = 0) -> list[str]:
        entries = confirmed_questions(beliefs, right, corrected, most=most, seed=seed)
        _check_numbers(entries)
        return [entry.question for entry in entries]

    assert drawn(None) == drawn(4) == drawn(9) == texts
    assert drawn(0) == []
    assert confirmed_questions(beliefs, right, [], most=2.0) == []
    assert Counter(map(len, map(set, (drawn(2.9, seed) for seed in range(20))))) == {2: 20}
    assert {text for seed in range(40) for text in drawn(2.0, seed)} == set(texts)


def test_ordinary_questions_are_new_and_answered_right(tmp_path: Path) -> None:
    split = toy_root(tmp_path).split("val")
    entries = ordinary_questions([1] * 40, split, ORACLE, seed=0)
    _check_numbers(entries)
    assert [entry.image_id for entry in entries] == [1] * 40
    assert len({entry.question for entry in entries}) > 20
    for entry in entries:
        program = parse(entry.question)
        assert program is not None
        outcome = evaluate(program, toy_scene())
        assert Counter(entry.answers).most_common(1)[0][0] == outcome.answer
        assert entry.layout
    assert ordinary_questions([1] * 40, split, ORACLE, seed=0) == entries
    assert ordinary_questions([1] * 40, split, ORACLE, seed=1) != entries


def test_without_an_oracle_training_questions_are_repeated(tmp_path: Path) -> None:
    split = toy_root(tmp_path, scenes=False).split("val")
    entries = ordinary_questions([1] * 30, split, None, seed=0)
    asked = {(entry.question, (entry.answers or ("",))[0]) for entry in entries}
    assert asked == set(OWN_QUESTIONS)


@pytest.mark.parametrize("at", [0.28, 0.29, 0.57, 1.13])
def test_shares_of_a_hundred_are_percents(at: float, tmp_path: Path) -> None:
    """The floats 0.29 * 100 and 1.13 * 100 are below 29 and 113."""
    wanted = {0.28: 28, 0.29: 29, 0.57: 57, 1.13: 113}[at]
    split, oracle = toy_root(tmp_path).split("val"), SceneOracle({1: toy_scene()})
    hundred = [Entry(str(n), n, 1, f"Is it {n}?", ["no"]) for n in range(100)]
    assert len(ordinary_share(hundred, at, split, oracle, seed=0)) == wanted
    beliefs = [replace(STAR, question=f"What color is star {n}?") for n in range(150)]
    right = right_answers(ORACLE, None)  # type: ignore[arg-type]  # the oracle needs no split
    assert len(confirmed_questions(beliefs, right, hundred, most=at)) == wanted


@pytest.mark.parametrize(("share", "number"), [(0.3, 6), (0.29, 5), (2.0, 40), (0, 0)])
def test_ordinary_questions_are_a_share_of_others(
    share: float, number: int, tmp_path: Path
) -> None:
    split, oracle = toy_root(tmp_path).split("val"), SceneOracle(dict.fromkeys((1, 2), toy_scene()))
    added = [Entry("1", 1, image, "Is it?", ["no"]) for image in (1, 2) for _ in range(10)]
    entries = ordinary_share(added, share, split, oracle, seed=0)
    _check_numbers(entries)
    assert len(entries) == number
    assert entries == ordinary_share(added, share, split, oracle, seed=0)
    if number:
        assert {entry.image_id for entry in entries} == {1, 2}
        assert {entry.question for entry in entries} != {"Is it?"}
        assert entries != ordinary_share(added, share, split, oracle, seed=1)
        # Without an oracle the questions of the split are repeated.
        own = ordinary_share(added[:10], share, split, None, seed=0)
        assert {entry.question for entry in own} <= {text for text, _ in OWN_QUESTIONS}


def test_noise_disturbs_questions_about_the_same_images(tmp_path: Path) -> None:
    root = toy_root(tmp_path, scenes=False)
    write_json(tmp_path / "layouts_val.json", {"0": ["_Find"], "1": ["_Scene"], "2": ["_Exist"]})
    split = root.split("val")

    def noisy(texts: list[str]) -> list[list[str]]:
        return [[f"{text} level {level}?" for text in texts] for level in (1, 2)]

    entries = noisy_questions([1] * 60, split, noisy, seed=0)
    _check_numbers(entries)
    answers = dict(OWN_QUESTIONS)
    layouts = dict(zip(answers, ["_Find", "_Scene", "_Exist"], strict=True))
    levels = Counter()
    for entry in entries:
        clean, _, level = entry.question.removesuffix("?").rpartition(" level ")
        assert list(entry.answers or ()) == [answers[clean]] * 10
        assert entry.layout == [layouts[clean]]
        levels[level] += 1
    assert set(levels) == {"1", "2"}
    assert min(levels.values()) > 15


@pytest.mark.parametrize("question", ["What color is the star?", "Color color?"])
def test_the_oracle_lays_out_what_it_understands(question: str) -> None:
    expected = ["_Find", "_Describe"] if "star" in question else None
    assert ORACLE.layout(question) == expected
