"""What answers rest on, and what they report: computed by hand."""

import numpy as np
import pytest

from ivqa.logic.follow_ups import follow_ups
from ivqa.logic.reports import Rest, reports


def test_right_if_all_needs_and_no_denials_are_true() -> None:
    probability = np.array([0.9, 0.6, 0.2, 0.1])
    assert Rest((0, 1), (), 1.0).right(probability) == pytest.approx(0.6)
    assert Rest((), (2, 3), 1.0).right(probability) == pytest.approx(0.8)
    # "Is the star red?" no: there is a star, but no red one.
    assert Rest((0,), (2,), 1.0).right(probability) == pytest.approx(0.7)
    assert Rest((3,), (2,), 1.0).right(probability) == 0
    assert Rest((0,), (), 0.5).right(probability) == pytest.approx(0.45)
    assert Rest((), (), 0.7).right(probability) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("question", "answer", "needs", "denies", "otherwise"),
    [
        ("Is there a red star?", "yes", 1, 0, 1.0),
        ("Is there a red star?", "no", 0, 1, 1.0),
        ("How many stars are there?", "0", 0, 1, 1.0),
        ("How many stars are there?", "2", 1, 0, 0.6),
        ("What color is the star?", "red", 2, 0, 0.6),
        ("Is the star red?", "yes", 2, 0, 1.0),
        ("Is the star red?", "no", 1, 1, 1.0),
        ("Is it cloudy?", "no", 0, 1, 1.0),
        ("Why is he sad?", "cold", 0, 0, 0.6),
    ],
)
def test_what_an_answer_rests_on(
    question: str, answer: str, needs: int, denies: int, otherwise: float
) -> None:
    _, [[rest]] = reports([[(question, answer, 0.6)]])
    assert (len(rest.needs), len(rest.denies), rest.otherwise) == (needs, denies, otherwise)


def test_the_model_names_what_it_believes() -> None:
    """Of a red star, both questions that could name it are answered; one alone is no report."""
    color = ("What color is the star?", "red", 0.5)
    found = []
    for shape in ("star", "heart", None):
        answers = (
            [color] if shape is None else [color, ("What shape is the red thing?", shape, 0.8)]
        )
        propositions, [[rest, *_]] = reports([answers])
        star, red_star = rest.needs
        # A red star is a star; and a red thing, where that is asked about.
        above = propositions.parent[propositions.child == red_star]
        assert star in above
        assert len(above) == len(answers)
        found.append(propositions.reports[red_star, 1:].tolist())
    # log-odds of 0.5 and 0.8 are 0 and log 4; 4 is added, and the sign says whether it is named.
    confirmed, denied, alone = found
    assert confirmed == pytest.approx([4, 4 + np.log(4)])
    assert denied == pytest.approx([-4 - np.log(4), 4])
    assert np.isnan(alone).all()


def test_wordings_of_a_question_are_one_report() -> None:
    answers = [("Is there a star?", "yes", 0.8), ("Do you see a star?", "no", 0.5)]
    propositions, _ = reports([answers, [("Is there a star?", "no", 0.9)]])
    # The second picture has propositions of its own.
    assert propositions.reports[:, 0] == pytest.approx([np.log(4) / 2, -np.log(9)])


def test_what_a_witness_says_stands_beside_what_the_model_says() -> None:
    model = [[("Is there a star?", "yes", 0.8)], [("Is there a heart?", "no", 0.8)]]
    witness = [[("Is there a star?", "no", 0.9), ("Is there a cross?", "yes", 0.9)], []]
    propositions, rests = reports(model, [witness])
    (star,), (heart,) = rests[0][0].needs, rests[1][0].denies
    assert propositions.reports.shape == (2, 6)  # the cross is none of the model's propositions
    assert propositions.reports[[star, heart], 0] == pytest.approx([np.log(4), -np.log(4)])
    assert propositions.reports[star, 3] == pytest.approx(-np.log(9))
    assert np.isnan(propositions.reports[heart, 3:]).all()


def test_follow_ups_of_a_phrase_with_one_word_ask_for_another() -> None:
    assert "What color is the car?" in follow_ups("Is there a car?", "yes")
    assert "What color is the striped thing?" in follow_ups("Is there a striped thing?", "yes")


def test_follow_ups_of_a_no_ask_for_what_it_denies() -> None:
    found = follow_ups("Is the heart red?", "no")
    assert {"Is there a heart?", "Is there a red heart?", "What shape is the red thing?"} < {*found}


@pytest.mark.parametrize("answer", ["yes", "no", "red", "2", ""])
def test_follow_ups_are_other_questions_and_different(answer: str) -> None:
    for question in ("Is there a red star?", "What color is the big star?", "Why is he sad?"):
        found = follow_ups(question, answer)
        assert question not in found
        assert len(found) == len(set(found))
