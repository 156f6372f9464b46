"""Tables of answers that exclude each other, and of answers that do not."""

import random

import pytest

from ivqa.logic import Contradiction, contradicting, contradictions

Belief = tuple[str, str]

CERTAIN: list[tuple[str, list[Belief]]] = [
    # presupposition
    ("presupposition", [("What color is the car?", "red"), ("Is there a car?", "no")]),
    ("presupposition", [("Is the red car new?", "no"), ("How many cars are there?", "0")]),
    ("presupposition", [("Is the cup left of the plate?", "no"), ("Is there a plate?", "no")]),
    # equivalence and wordings
    ("equivalence", [("Is there a car?", "yes"), ("Do you see any cars in this photo?", "no")]),
    ("equivalence", [("Is there no star?", "yes"), ("Is there a star?", "yes")]),
    ("equivalence", [("How many men are sitting?", "2"), ("Are there any men sitting?", "no")]),
    # necessary: the narrower is there, the wider is not
    ("necessary", [("Is there a red car?", "yes"), ("Is there a car?", "no")]),
    ("necessary", [("Is the car red?", "yes"), ("Are there any red cars?", "no")]),
    ("necessary", [("Is the thing a star?", "yes"), ("Is there a star?", "no")]),
    ("necessary", [("What is the man wearing?", "a hat"), ("Is there a hat?", "no")]),
    # bounds
    ("bounds", [("How many red cars are there?", "3"), ("How many cars are there?", "2")]),
    ("bounds", [("How many cars are there?", "3"), ("How many cars do you see?", "4")]),
    ("bounds", [("Is there more than one car?", "yes"), ("How many cars are there?", "1")]),
    ("bounds", [("Are there three cars?", "yes"), ("How many cars are there?", "2")]),
    # comparison
    ("comparison", [("Are there more dogs than cats?", "yes"),
                    ("Are there fewer dogs than cats?", "yes")]),
    ("comparison", [("Are there more dogs than cats?", "no"),
                    ("Are there fewer cats than dogs?", "yes")]),
    ("comparison", [("Are there more dogs than cats?", "yes"), ("How many dogs are there?", "2"),
                    ("How many cats are there?", "2")]),
    ("comparison", [("Are there as many dogs as cats?", "yes"), ("How many dogs are there?", "2"),
                    ("How many cats are there?", "3")]),
    # sums: with a property and without it; of different shapes
    ("bounds", [("How many cars are there?", "1"), ("Is the car new?", "yes"),
                ("Is the car new?", "no")]),
    ("bounds", [("How many things are there?", "1"), ("Is there a star?", "yes"),
                ("Is there a heart?", "yes")]),
    # scene
    ("scene", [("Is it daytime?", "yes"), ("What time of day is it?", "night")]),
    ("scene", [("Is this indoors?", "yes"), ("Was this photo taken outside?", "yes")]),
    ("scene", [("What is the weather like?", "rain"), ("Is it rainy?", "no")]),
    # polarity of questions that are not understood
    ("polarity", [("Is something burning nearby or not?", "yes"),
                  ("is something burning nearby, or not", "no")]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "beliefs"), CERTAIN)
def test_certain(rule: str, beliefs: list[Belief]) -> None:
    everyone = Contradiction(tuple(range(len(beliefs))), rule, certain=True)
    assert [one for one in contradictions(beliefs) if one.certain] == [everyone]
    assert contradicting(beliefs) == [True] * len(beliefs)
    # No rule but the members makes it: without any one of them nothing certain is left.
    for left_out in range(len(beliefs)):
        rest = [one for row, one in enumerate(beliefs) if row != left_out]
        assert not any(contradicting(rest))


LIKELY: list[list[Belief]] = [
    # There may be two cars, and "the car" be another one.
    [("Is the car new?", "yes"), ("Is the car new?", "no")],
    [("Is he happy?", "yes"), ("Is he happy?", "no")],
    # One car of two colours.
    [("How many cars are there?", "1"), ("Is the car red?", "yes"),
     ("What color is the car?", "blue")],
    # Toys and pictures, and hypernyms.
    [("Is there a toy dog?", "yes"), ("Is there a dog?", "no")],
    [("Is there a dog on the poster?", "yes"), ("Is there a dog?", "no")],
    [("Is there a dog?", "yes"), ("Is there an animal?", "no")],
    # People ask so in order to learn whether there is any water.
    [("Is the cat in the water?", "no"), ("Is there any water?", "no")],
    # A city at a beach; the last light of a day.
    [("Where is this?", "beach"), ("Where was this picture taken?", "city")],
    [("Is it daytime?", "yes"), ("What time of day is it?", "sunset")],
    [("Is it sunny?", "no"), ("Is it clear?", "yes")],
    [("Why is the boy sad?", "hungry"), ("Why is the boy sad?", "tired")],
]  # fmt: skip


@pytest.mark.parametrize("beliefs", LIKELY)
def test_likely_but_not_certain(beliefs: list[Belief]) -> None:
    assert [one.certain for one in contradictions(beliefs)] == [False]
    assert not any(contradicting(beliefs))


CONSISTENT: list[list[Belief]] = [
    [("Is the car red?", "no"), ("Is there a red car?", "yes")],
    [("Is there a red car?", "no"), ("Is there a car?", "yes")],
    [("How many red cars are there?", "1"), ("How many cars are there?", "2")],
    [("How many cars are on the street?", "1"), ("How many cars are there?", "5")],
    [("Are there two cars?", "no"), ("How many cars are there?", "3")],
    [("Are there many cars?", "no"), ("How many cars are there?", "3")],
    [("Is the leftmost star red?", "yes"), ("Is the leftmost red star large?", "yes")],
    [("What color is the leftmost red star?", "red"), ("Is there a leftmost star?", "no")],
    [("What color is the car?", "no car"), ("Is there a car?", "no")],
    [("What is the man holding?", "nothing"), ("Is there a man?", "no")],
    [("How many trains are there?", "1"), ("How many train tracks are there?", "4")],
    [("How many legs does the cat have?", "4"), ("How many legs are there?", "2")],
    [("Is it snowing?", "no"), ("Is it snowy?", "yes")],
    [("Is there a hot dog?", "yes"), ("Is there a dog?", "no")],
    [("Is there a cat or a dog?", "no"), ("Is there a cat?", "yes")],
    [("Isn't there a cat?", "no"), ("Is there a cat?", "yes")],
    [("Are there more dogs than cats?", "no"), ("Are there as many dogs as cats?", "yes")],
    [("Is this in London?", "yes"), ("Is this in a park?", "yes")],
    [("Is it noon?", "no"), ("Is it daytime?", "yes")],
    [("What is on the table?", "plate"), ("What is under the table?", "dog")],
    [("How many people are there?", "many"), ("Are there any people?", "yes")],
]


@pytest.mark.parametrize("beliefs", CONSISTENT)
def test_consistent(beliefs: list[Belief]) -> None:
    assert contradictions(beliefs) == []


def test_order_of_the_beliefs_does_not_matter() -> None:
    beliefs = [one for _, row in CERTAIN for one in row] + [one for row in LIKELY for one in row]
    beliefs = list(dict.fromkeys(beliefs))
    before = {(frozenset(beliefs[row] for row in one.members), one.certain)
              for one in contradictions(beliefs) if len(one.members) == 2}  # fmt: skip
    random.Random(1).shuffle(beliefs)
    after = {(frozenset(beliefs[row] for row in one.members), one.certain)
             for one in contradictions(beliefs) if len(one.members) == 2}  # fmt: skip
    assert before == after
    assert len(before) > 20


def test_members_ascend_and_two_answers_have_at_most_one() -> None:
    found = contradictions([one for _, row in CERTAIN for one in row])
    members = [one.members for one in found]
    assert members == sorted(set(members))
    assert all(list(one) == sorted(set(one)) for one in members)


def test_no_beliefs_and_no_sense() -> None:
    assert contradictions([]) == []
    assert contradicting([("", ""), ("", "yes"), ("x", "")]) == [False] * 3


def test_an_answer_to_a_yes_no_question_that_is_neither_states_nothing() -> None:
    other = [("Is there a table?", "chair"), ("Do you see a table?", "garbage bin")]
    assert contradictions(other) == []
    # "Is the car red?" yes or no needs a car; "chair" says nothing about one.
    denied = ("Is there a car?", "no")
    assert contradicting([denied, ("Is the car red?", "yes")]) == [True, True]
    assert contradicting([denied, ("Is the car red?", "chair")]) == [False, False]
