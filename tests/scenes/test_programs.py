"""Noun phrases and what they are true of."""

from itertools import product

from ivqa.scenes.programs import Noun
from ivqa.scenes.world import Thing


def test_a_phrase_matches_what_has_every_attribute_that_it_says() -> None:
    star = {"shape": "star", "color": "red", "size": "large", "pattern": "plain"}
    other = {"shape": "heart", "color": "blue", "size": "small", "pattern": "dotted"}
    large_star = Noun(shape="star", size="large")
    # Each attribute is right, wrong or not said.
    for said in product(*((star[name], other[name], None) for name in star)):
        noun = Noun(**dict(zip(star, said, strict=True)))
        wrong = [value for value in said if value in other.values()]
        assert noun.matches(Thing(**star, x=0.5, y=0.5)) == (not wrong), noun
        # Large stars may have any colour and pattern.
        expected = not wrong and noun.color is None and noun.pattern is None
        assert noun.matches(large_star) == expected, noun
