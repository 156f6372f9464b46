"""Tables of answers and of what follows from them, written by hand, rule by rule."""

import subprocess
import sys

import pytest

from ivqa.logic import Implication, implications

# question, answer, implied question, its answer, rule, whether certain
FOLLOWS = [
    # presupposition: a definite noun phrase is there, whatever the answer
    ("What color is the car?", "red", "Is there a car?", "yes", "presupposition", True),
    ("Is the old car red?", "no", "Is there an old car?", "yes", "presupposition", True),
    ("Is the man's dog asleep?", "no", "Is there a dog?", "yes", "presupposition", True),
    ("Is his hat blue?", "yes", "Is there a hat?", "yes", "presupposition", True),
    ("Are the dogs asleep?", "no", "Are there any dogs?", "yes", "presupposition", True),
    ("Is the water calm?", "yes", "Is there any water?", "yes", "presupposition", True),
    ("Is the cup left of the plate?", "no", "Is there a plate?", "yes", "presupposition", True),
    ("What is on the table?", "pizza", "Is there a table?", "yes", "presupposition", True),
    ("What color is the bus stop?", "red", "Is there a bus stop?", "yes", "presupposition", True),
    ("Why is the boy crying?", "hungry", "Is there a boy?", "yes", "presupposition", True),
    ("What kind of animal is this?", "cow", "Is there an animal?", "yes", "presupposition", True),
    ("How many cats are on the bed?", "2", "Is there a bed?", "yes", "presupposition", True),
    # "no" leaves open whether there is the place
    ("Is the cat in the water?", "no", "Is there any water?", "yes", "presupposition", False),
    ("How many cats are on the bed?", "0", "Is there a bed?", "yes", "presupposition", False),
    # necessary: what is wider is there as well
    ("Is there a red car?", "yes", "Is there a car?", "yes", "necessary", True),
    ("How many men are wearing hats?", "2", "Are there any men?", "yes", "necessary", True),
    ("How many men are wearing hats?", "2", "Are there any hats?", "yes", "necessary", True),
    ("Is the door open?", "yes", "Is there an open door?", "yes", "necessary", True),
    ("Is the animal a dog?", "yes", "Is there a dog?", "yes", "necessary", True),
    ("Is this a boat?", "yes", "Is there a boat?", "yes", "necessary", True),
    ("What is the man holding?", "bat", "Is there a bat?", "yes", "necessary", True),
    ("What is on the table?", "cup", "Is there a cup on the table?", "yes", "necessary", True),
    ("What color shirt is he wearing?", "red", "Is there a red shirt?", "yes", "necessary", True),
    ("Is there a toy car?", "yes", "Is there a car?", "yes", "hypernym", False),
    ("Are there any dogs?", "yes", "Are there any animals?", "yes", "hypernym", False),
    ("Is there a dog on the poster?", "yes", "Is there a dog?", "yes", "necessary", False),
    ("How many cows turn to their left?", "3", "Are there any cows?", "yes", "necessary", True),
    # equivalence
    ("Is there a car?", "no", "How many cars are there?", "0", "equivalence", True),
    ("How many cars are there?", "0", "Are there any cars?", "no", "equivalence", True),
    ("How many cars are there?", "none", "Are there any cars?", "no", "equivalence", True),
    ("How many people do you see?", "two", "Are there any people?", "yes", "equivalence", True),
    ("What color is the car?", "red", "Is the car red?", "yes", "equivalence", True),
    ("What shape is the red thing?", "star", "Is there a red star?", "yes", "necessary", True),
    ("Is the car red?", "yes", "What color is the car?", "red", "equivalence", False),
    # wordings
    ("Is there a car?", "yes", "Do you see a car?", "yes", "wording", True),
    ("How many cars are there?", "3", "How many cars can you see?", "3", "wording", True),
    (
        "Are there more dogs than cats?", "no",
        "Are there fewer cats than dogs?", "no", "wording", True,
    ),
    # exclusion: a car may be red and blue
    ("What color is the car?", "red", "Is the car blue?", "no", "exclusion", False),
    ("Is the door open?", "yes", "Is the door closed?", "no", "exclusion", False),
    # bounds
    ("How many cars are there?", "3", "Is there more than one car?", "yes", "bounds", True),
    ("How many cars are there?", "1", "Is there more than one car?", "no", "bounds", True),
    # comparison
    (
        "Are there more dogs than cats?", "yes",
        "Are there as many dogs as cats?", "no", "comparison", True,
    ),
    ("Are there more dogs than cats?", "yes", "Are there any dogs?", "yes", "necessary", True),
    # scene
    ("Is it daytime?", "yes", "Was this picture taken at night?", "no", "scene", True),
    ("Is this indoors?", "yes", "Was this picture taken outdoors?", "no", "scene", True),
    ("Where is this?", "beach", "Was this picture taken at the beach?", "yes", "scene", True),
    ("What is the weather like?", "raining", "Is it rainy?", "yes", "scene", True),
    ("Is it sunny?", "yes", "Is it clear?", "yes", "scene", False),
]  # fmt: skip


@pytest.mark.parametrize("row", FOLLOWS, ids=lambda row: f"{row[0]} {row[1]}: {row[2]}")
def test_follows(row: tuple[str, str, str, str, str, bool]) -> None:
    question, answer, *implied = row
    assert Implication(*implied) in implications(question, answer)  # type: ignore[arg-type]


# question, answer, a question that this does not answer
DOES_NOT_FOLLOW = [
    ("Is the car red?", "no", "Is there a red car?"),
    ("Is there a car?", "no", "Is there a red car?"),
    ("Is there a car?", "yes", "How many cars are there?"),
    ("Are there two cars?", "no", "Is there a car?"),
    ("Are people wearing hats?", "no", "Are there any people wearing hats?"),
    ("Is the man looking for a bus?", "yes", "Is there a bus?"),
    ("Is the man at the bus stop?", "yes", "Is there a bus?"),
    ("Is there a hot dog?", "yes", "Is there a dog?"),
    ("Is the woman on the left happy?", "yes", "Is there a left?"),
    ("What is the weather like?", "sunny", "Is there any weather?"),
    ("What time of day is it?", "night", "Is there a day?"),
    ("What kind of room is this?", "kitchen", "Is there a room?"),
    ("How many legs does the cat have?", "4", "Are there any legs?"),
    ("How many people can sit here?", "4", "Are there any people?"),
    ("How many hours are there in a day?", "24", "Are there any hours?"),
    ("Is the man on the bench or the chair?", "bench", "Is there a chair?"),
    ("Is it snowing?", "no", "Is it snowy?"),
    ("Is the dog in the picture?", "no", "Is there a dog?"),
    ("Is the sun visible?", "no", "Is there a sun?"),
    ("Can the dog be seen?", "no", "Is there a dog?"),
    ("Is he not wearing a hat?", "yes", "Is there a hat?"),
    ("Should he be wearing a hat?", "yes", "Is there a hat?"),
    ("What is on the bed?", "chair, table", "Is there a chair table on the bed?"),
    ("Is the cat not asleep?", "yes", "Is there an asleep cat?"),
    ("Is this picture clear?", "yes", "Is it clear?"),
]


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    DOES_NOT_FOLLOW,
    ids=lambda text: str(text),
)
def test_does_not_follow(question: str, answer: str, other: str) -> None:
    assert other not in [one.question for one in implications(question, answer)]


# Answers that deny the question, questions about nothing definite, and no questions at all.
NOTHING = [
    ("What color is the car?", "none"),
    ("What color is the car?", "no car"),
    ("What color is the car?", "unknown"),
    ("What color is the car?", "can't tell"),
    ("What is the man holding?", "nothing"),
    ("Isn't there a car?", "no"),
    ("Is there a cat or a dog?", "no"),
    ("Are there any dogs other than the brown one?", "no"),
    ("How many cars are there?", "2 or 3"),
    ("How many cars are there?", "10+"),
    ("How many cars are there?", "2.5"),
    ("Are there many cars?", "no"),
    ("Is he happy?", "yes"),
    ("Is it a good idea?", "no"),
    ("Is this a kitchenette?", "no"),
    ("", "yes"),
    ("?", ""),
    ("What", "a"),
    ("the of in", "yes"),
    ("Is there", "yes"),
    ("How many", "2"),
]


@pytest.mark.parametrize(("question", "answer"), NOTHING)
def test_nothing_certain_follows(question: str, answer: str) -> None:
    assert not [one for one in implications(question, answer) if one.certain]


def test_the_question_itself_does_not_follow_and_no_question_comes_twice() -> None:
    for question, answer, *_ in FOLLOWS:
        texts = [one.question for one in implications(question, answer)]
        assert question not in texts
        assert len(texts) == len(set(texts))


def test_certain_ones_come_first() -> None:
    certain = [one.certain for one in implications("What color is the car?", "red")]
    assert certain == sorted(certain, reverse=True)
    assert False in certain


def test_needs_no_torch() -> None:
    code = (
        "import sys, ivqa; ivqa.implications('Is there a car?', 'yes'); "
        "assert ivqa.contradicting([('Is there a car?', 'yes'), ('Is there a car?', 'no')])"
        " == [True, True]; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
