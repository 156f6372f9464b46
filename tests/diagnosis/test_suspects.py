"""Suspects among beliefs, their file, and the figures of a search."""

from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

import pytest

from ivqa.data.oracles import Judgement, Oracle
from ivqa.data.validation import DataError
from ivqa.diagnosis import (
    Belief,
    GivenAnswer,
    convicted,
    convicting,
    read_beliefs,
    search_figures,
    with_suspects,
    write_beliefs,
)
from ivqa.diagnosis.beliefs import suspects
from ivqa.logic import PictureAnswers, Suspicion


def _belief(image: int, question: str, answer: str, phi: float = 0.9) -> Belief:
    return Belief(image, answer, question, phi, 0.0, 1.0, "plain_english")


BELIEFS = [
    _belief(1, "Is there a car?", "no", 0.95),
    _belief(2, "Is there a car?", "yes"),
    _belief(1, "What color is the car?", "red", 0.6),
    _belief(1, "Is there a dog?", "yes"),
    _belief(2, "What color is the car?", "red"),
    _belief(1, "How many cars are there?", "2", 0.7),
]


def test_contradictions_are_named_by_line_and_convict() -> None:
    marked, figures = with_suspects(BELIEFS)
    # By hand: in image 1 the answers of lines 3 and 6 need a car, and line 1 denies one.
    assert [belief.contradicts for belief in marked] == [(3, 6), (), (1,), (), (), (1,)]
    assert figures["beliefs/contradictions"] == pytest.approx(3 / 6)
    # One answer may be wrong alone: that of line 1.
    assert figures["beliefs/errors_at_least"] == pytest.approx(1 / 6)
    suspects = [belief for belief in marked if belief.suspect]
    assert figures["beliefs/suspects"] == pytest.approx(len(suspects) / 6)
    assert [replace(one, suspect=None, contradicts=()) for one in marked] == BELIEFS
    # Either line 1 is wrong, or both others are.
    assert marked[0].suspect or (marked[2].suspect and marked[5].suspect)
    # Lines 3 and 6 speak against line 1, the more confident of them most.
    assert convicting(marked[0], marked) == marked[5]
    assert convicting(marked[2], marked) == marked[0]
    assert convicting(marked[3], marked) is None


def test_two_beliefs_that_may_both_be_true_convict_none() -> None:
    parts = [
        _belief(1, "How many objects are there?", "2"),
        _belief(1, "How many stars are there?", "2"),
        _belief(1, "How many hexagons are there?", "2"),
        _belief(2, "Where is this?", "beach"),  # and a city: seldom, but possible
        _belief(2, "Where is this?", "city"),
    ]
    marked, figures = with_suspects(parts)
    assert figures["beliefs/contradictions"] == pytest.approx(
        3 / 5
    )  # only all three cannot be true
    assert figures["beliefs/errors_at_least"] == pytest.approx(1 / 5)
    assert [belief.contradicts for belief in marked] == [()] * 5
    assert convicted([replace(one, suspect=True) for one in marked]) == []


def test_the_surest_conviction_of_each_image_is_shown() -> None:
    marked = [replace(one, suspect=False) for one in with_suspects(BELIEFS)[0]]
    marked[2] = replace(marked[2], suspect=True)
    marked[5] = replace(marked[5], suspect=True)
    assert convicted(marked) == [(marked[5], marked[0])]  # min(.7, .95) is more than min(.6, .95)
    assert convicted(marked, 0) == []


def test_follow_ups_are_evidence_and_no_beliefs() -> None:
    further = [
        replace(_belief(2, "Do you see a car?", "no", 0.97), source="follow_up"),
        replace(_belief(2, "Are there any cars?", "no", 0.99), source="follow_up"),
        replace(_belief(2, "Can you find a car?", "no", 0.98), source="follow_up"),
    ]
    alone, figures = with_suspects(BELIEFS)
    marked, more = with_suspects(BELIEFS, further)
    assert [one.question for one in marked] == [one.question for one in BELIEFS]
    # What the beliefs say of one another stays; of image 2, both beliefs need a car.
    assert [one.contradicts for one in marked] == [one.contradicts for one in alone]
    for name in ("beliefs/contradictions", "beliefs/errors_at_least"):
        assert more[name] == figures[name]
    assert more["follow_ups/count"] == 3
    # By hand: line 1 of image 1, and the two beliefs of image 2 rather than three denials.
    assert more["follow_ups/errors_at_least"] == pytest.approx((1 + 2) / (6 + 3))
    assert not alone[1].suspect
    assert not alone[4].suspect
    assert marked[1].suspect
    assert marked[4].suspect
    assert marked[1].denied_by == marked[4].denied_by == ("Are there any cars?", "no", 0.99)
    assert all(one.denied_by is None for one in alone)


def test_what_witnesses_say_is_put_beside_the_same_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The beliefs of two images are mixed; a witness answers in the order of the beliefs."""
    told: list[list[tuple[str, str, float]]] = []

    def suspicions(pictures: object, witnesses: list[list[PictureAnswers]]) -> list[Suspicion]:
        for witness in witnesses:
            for one in witness:
                assert one.confidences is not None
                rows = zip(one.beliefs, one.confidences.tolist(), strict=True)
                told.append([(*belief, phi) for belief, phi in rows])
        return real(pictures, witnesses)  # type: ignore[arg-type]

    real = suspects.suspicions
    monkeypatch.setattr(suspects, "suspicions", suspicions)
    given = [GivenAnswer(str(row), row / 10) for row in range(7)]
    with_suspects(BELIEFS, [_belief(1, "Is there a red car?", "no")], [given])
    lines = {1: (0, 2, 3, 5, 6), 2: (1, 4)}
    questions = [*(one.question for one in BELIEFS), "Is there a red car?"]
    assert told == [
        [(questions[row], str(row), pytest.approx(row / 10)) for row in rows]
        for rows in lines.values()
    ]


def test_marks_are_kept_in_the_file_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "beliefs.jsonl"
    marked, _ = with_suspects(BELIEFS)
    marked[0] = replace(marked[0], denied_by=("Do you see a car?", "yes", 0.9))
    write_beliefs(file, marked)
    assert read_beliefs(file) == marked
    for wrong in ("[1, 2, 3]", '"yes"', '["Do you see a car?", "yes"]'):
        line = marked[1].line().replace('"contradicts": []', f'"denied_by": {wrong}')
        file.write_text(line)
        with pytest.raises(DataError, match="line 1: not a belief: denied_by"):
            read_beliefs(file)
    write_beliefs(file, BELIEFS)
    assert "suspect" not in file.read_text()
    assert "contradicts" not in file.read_text()
    for name, wrong in (("suspect", '"yes"'), ("contradicts", "[0]"), ("contradicts", "3")):
        line = marked[0].line().replace('"contradicts": [3, 6]', f'"{name}": {wrong}')
        file.write_text(line)
        with pytest.raises(DataError, match=f"line 1: not a belief: {name}"):
            read_beliefs(file)


class _Facts(Oracle):
    """Every question is a fact of its own, but the two about stars are one."""

    def judge(self, image_id: int, question: str) -> Judgement:
        raise NotImplementedError

    def fact(self, question: str) -> Hashable:
        return "star" if "star" in question else question


def test_figures_of_a_search_are_those_counted_by_hand() -> None:
    def typed(number: int, question: str, kind: str | None, phi: float, suspect: bool) -> Belief:
        own = Belief(number, "yes", question, phi, 0.0, 1.0, "plain_english", suspect=suspect)
        return replace(own, type=kind, type_by="oracle" if kind else None)  # type: ignore[arg-type]

    beliefs = [
        typed(1, "Is there a star?", "adversarial", 0.9, True),
        typed(1, "Are there any stars?", "adversarial", 0.8, False),  # the same fact
        typed(1, "Is there a circle?", "complementary", 0.9, True),
        typed(2, "Is there a star?", "adversarial", 0.5, True),
        typed(2, "Is the car red?", "irrelevant", 0.9, False),
        typed(2, "Why is it so?", None, 0.9, True),
        *(typed(number, "Is there a heart?", "adversarial", 0.75, False) for number in (3, 4)),
        *(typed(number, "Is the car big?", "irrelevant", 0.6, False) for number in (3, 4, 5, 6)),
    ]
    figures = search_figures(beliefs, _Facts())
    assert figures["search/questions"] == 12
    # Facts: (1, star), (2, star), (3, heart), (4, heart); the second is not confident.
    assert figures["search/wrong_facts_per_1000"] == pytest.approx(4000 / 12)
    assert figures["search/confident_wrong_facts_per_1000"] == pytest.approx(3000 / 12)
    # Kinds by the first two words: "is there" has 4 examples, "are there" 1, "is the" 5.
    assert "search/questions_to_five_of_each_kind" not in figures
    assert figures["suspects/precision"] == pytest.approx(2 / 3)  # of the typed ones
    assert figures["suspects/recall"] == pytest.approx(2 / 10)
    more = [*beliefs, *(typed(n, "Is there a box?", "adversarial", 0.2, False) for n in (7, 8))]
    more[1] = replace(more[1], question="Is there any star?")
    figures = search_figures(more, _Facts())
    # The fifth "is there" is question 8, the fifth "is the" question 12.
    assert figures["search/questions_to_five_of_each_kind"] == 12
    assert search_figures(beliefs, None) == {"search/questions": 12}
