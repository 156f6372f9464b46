"""Expected results of the official normalisation, derived by hand from its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivqa.text.normalisation import (
    CONTRACTIONS,
    normalise_answer,
    strip_punctuation,
    unify_words,
)

GOLDEN = {
    "Two dogs.": "2 dogs",
    "the cat": "cat",
    "dont": "don't",
    "100,978": "100978",
    "2:50 pm": "2:50 pm",
    "none": "0",
    "Zero": "0",
    "ten": "10",
    "eleven": "eleven",
    "a": "",
    "An apple": "apple",
    "  yes\n": "yes",
    "left\tside": "left side",
    "red,white": "red white",  # not next to a space: replaced
    "red, white": "red white",  # next to a space: deleted
    "red,white , blue": "redwhite blue",  # one next to a space: all are deleted
    "1,000 red/white": "1000 redwhite",  # a number with a comma deletes every mark
    "t-shirt": "t shirt",
    "it's": "it's",
    "8:00 a.m.": "8:00 am",
    "3.5": "3.5",
    "3.": "3",
    "u.s.a": "usa",
    ".5": ".5",
    "v.2": "v.2",
    "what?!": "what",
    "$5": "$5",
    "50%": "50%",
    "somebody'd": "somebodyd",
    "Im": "im",  # the table has "Im", but the text is lower-case by then
    "its": "its",
    "none of the above": "0 of above",
    "": "",
}


@pytest.mark.parametrize(("answer", "expected"), GOLDEN.items())
def test_answers_are_normalised_as_in_the_official_evaluation(answer: str, expected: str):
    assert normalise_answer(answer) == expected


def test_only_32_full_stops_are_deleted():
    assert strip_punctuation("." * 40) == "." * 8


def test_contraction_table_has_the_published_entries():
    assert len(CONTRACTIONS) == 120
    apostrophes_only = {
        spelling.replace("'", "") == target.replace("'", "")
        for spelling, target in CONTRACTIONS.items()
    }
    assert apostrophes_only == {True}
    assert CONTRACTIONS["y'allll"] == "y'all'll"


@given(st.text(alphabet="abe.,'-!? 019\n\tTH", max_size=20))
def test_normalised_answers_have_single_spaces_and_lower_case(text: str):
    normal = normalise_answer(text)
    assert normal == " ".join(normal.split()) == normal.lower()
    assert not set(normal.split()) & {"a", "an", "the"}
    assert not set(normal) & set(",-!?")


@given(st.lists(st.sampled_from(["dog", "two", "the", "dont", "red"]), max_size=5))
def test_normalising_twice_changes_nothing(words: list[str]):
    once = unify_words(" ".join(words))
    assert unify_words(once) == once
