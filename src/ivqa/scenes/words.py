"""The words of the grammar: phrases for values, relations and things, and their synonyms.

`canonical` maps a question to the words by which it is parsed. The tables `VALUE_PHRASES`,
`RELATION_PHRASES`, `THING_NOUNS` and `PATTERN_NOUNS` hold the words by which it is written.
"""

from ivqa.scenes.world import SHAPES, THING_ATTRIBUTES, VALUES
from ivqa.text.tokens import tokenise

# The phrases for a value of an attribute; a value without an entry is its own phrase.
VALUE_PHRASES: dict[str, tuple[str, ...]] = {
    "beach": ("at the beach", "on a beach"),
    "city": ("in a city", "in the city"),
    "desert": ("in a desert", "in the desert"),
    "field": ("in a field", "on a field"),
    "forest": ("in a forest", "in the forest"),
    "mountains": ("in the mountains",),
    "day": ("during the day", "in the daytime"),
    "night": ("at night", "during the night"),
    "sunset": ("at sunset", "during the sunset"),
    "rainy": ("rainy", "raining"),
    "snowy": ("snowy", "snowing"),
    "clear": ("clear", "sunny"),
    "large": ("large", "big"),
}
RELATION_PHRASES: dict[str, tuple[str, ...]] = {
    "left": ("left of", "to the left of", "on the left of"),
    "right": ("right of", "to the right of", "on the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
# The nouns for a thing whose shape is not given.
THING_NOUNS = ("thing", "object")
# The noun of a pattern: "a star with stripes" is a striped star.
PATTERN_NOUNS = {"striped": "stripes", "dotted": "dots", "checkered": "checks"}
ATTRIBUTE_OF = {value: name for name in THING_ATTRIBUTES for value in VALUES[name]}
"""The attribute of a thing that a word is a value of, such as "color" for "red"."""

_ARTICLES = {"a", "an", "the", "any", "some"}
# Words that the parser does not tell apart.
_SAME_WORD = {
    "colour": "color",
    "are": "is",
    "were": "was",
    "does": "do",
    "has": "have",
    "lies": "lie",
    "big": "large",
    "bigger": "larger",
    "little": "small",
    "tiny": "small",
    "object": "thing",
    "image": "picture",
    "photo": "picture",
    "checked": "checkered",
    "violet": "purple",
    "raining": "rainy",
    "snowing": "snowy",
    "sunny": "clear",
    "daytime": "day",
    "over": "above",
    "under": "below",
    "topmost": "highest",
    "bottommost": "lowest",
    "which": "what",
    "mountain": "mountains",
    "lines": "stripes",
}


def plural(noun: str) -> str:
    """The plural of a shape, "thing" or "object".

    Example:
        >>> plural("cross"), plural("star")
        ('crosses', 'stars')
    """
    return noun + "es" if noun.endswith(("s", "x")) else noun + "s"


_SAME_WORD |= {plural(noun): noun for noun in (*SHAPES, "thing")} | {"objects": "thing"}


def canonical(text: str) -> tuple[str, ...]:
    """The words by which a question or a phrase is parsed.

    They are in lower case, without articles, with one word for all its synonyms and the singular
    for the plural.

    Example:
        >>> canonical("Are there any big red stars?")
        ('is', 'there', 'large', 'red', 'star')
    """
    words = (word for word in tokenise(text) if word not in _ARTICLES)
    return tuple(_SAME_WORD.get(word, word) for word in words)
