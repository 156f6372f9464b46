"""Questions in plain English whose meanings are known; each meaning has one wording."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ivqa.diagnosis.search.companions import ANIMALS, PEOPLE
from ivqa.logic.implications import is_there
from ivqa.logic.phrases import Noun
from ivqa.logic.words import (
    ATTRIBUTE_OF,
    MASS,
    MATERIALS,
    MATERIALS_AND_THINGS,
    SAME_WORD,
    SHAPES,
    VALUES_OF,
)
from ivqa.text.tokens import tokenise

SEE: tuple[str, ...] = (
    "What is in the picture?",
    "What is the main object in the picture?",
    "What is in the background?",
    "What is in the foreground?",
    "What is on the left?",
    "What is on the right?",
)
"""Questions whose answers name things."""

SHAPE_OF_ANYTHING = "What shape is the object?"
"""What a model of drawings is asked in place of `SEE`."""

SCENE: Mapping[str, str] = {
    "weather": "What is the weather like?",
    "time": "What time of day is it?",
    "place": "Where was this picture taken?",
}
"""Questions about the whole picture, by what they ask for."""

ATTRIBUTES: Mapping[str, str] = {
    "color": "what color {be} {the}",
    "size": "what size {be} {the}",
    "pattern": "what pattern {do} {the} have",
    "shape": "what shape {be} {the}",
    "material": "what {be} {the} made of",
    "action": "what {be} {the} doing",
    "wearing": "what {be} {the} wearing",
    "holding": "what {be} {the} holding",
    "beside": "what is next to {the}",
    "where": "where {be} {the}",
}
"""Wordings of questions about a thing, by what they ask for."""

MODIFIERS = ("size", "pattern", "color")
"""Attributes whose values stand before a noun, in the order of English."""

NAMES_THINGS = ("wearing", "holding", "beside")
"""Attributes whose values are things."""

_OTHERS: Mapping[str, str] = {
    "count": "how many {s} are there",
    "check": "{be} {the} {value}",
    "more": "are there more {s} than {value}",
}
_SCENE_CHECKS: Mapping[str, Mapping[str, str]] = {
    "weather": {
        "sunny": "is it sunny",
        "clear": "is it clear",
        "cloudy": "is it cloudy",
        "overcast": "is it overcast",
        "rainy": "is it raining",
        "raining": "is it raining",
        "snowy": "is it snowing",
        "snowing": "is it snowing",
        "foggy": "is it foggy",
        "windy": "is it windy",
    },
    "time": {
        "day": "was this picture taken during the day",
        "daytime": "was this picture taken during the day",
        "night": "was this picture taken at night",
        "nighttime": "was this picture taken at night",
        "morning": "was this picture taken in the morning",
        "afternoon": "was this picture taken in the afternoon",
        "evening": "was this picture taken in the evening",
        "sunset": "was this picture taken at sunset",
    },
    "place": {
        "indoors": "was this picture taken indoors",
        "outdoors": "was this picture taken outdoors",
        "outside": "was this picture taken outdoors",
        "inside": "was this picture taken indoors",
    },
}
SCENE_VALUES = {name: tuple(values) for name, values in _SCENE_CHECKS.items()}
"""Values of the whole picture that can be asked for, by what they are values of."""

_LIVING = ("action", "where", "beside", "color", "size")
_THING = ("color", "material", "pattern", "size", "where", "beside")
# Things whose shape people ask for: at least three times in 57,038 questions of VQA v2.
_SHAPED = frozenset(("light", "mirror", "object", "pillow", "plate", "sign", "table", "window"))
_PERSON = ("action", "wearing", "holding", "where", "beside")

_NAMES: Mapping[str, Collection[str]] = {**VALUES_OF, "material": MATERIALS}
_FEWEST_NAMES = 2
_OF_DRAWINGS = 0.05  # 8 of the 44 answers of a model of scenes are shapes


@dataclass(frozen=True, order=True)
class Arm:
    """Questions of one kind.

    Attributes:
        family: See `Meaning`.
        origin: What the model has said of the noun: "seen", "denied", or nothing yet ("companion"
            of a thing that it sees, or "elsewhere": seen in another picture); "" for the whole
            picture; of "implied" the rule.
        modified: Whether the noun phrase has an adjective.
    """

    family: str
    origin: str = ""
    modified: bool = False


_ORIGINS = ("seen", "denied", "companion", "elsewhere")
_RULES = (  # of implications, see `ivqa.logic`
    "bounds", "comparison", "equivalence", "necessary", "presupposition", "scene", "wording",
)  # fmt: skip


def arms_of(attributes: Iterable[str]) -> list[Arm]:
    """The kinds of questions, of which some ask for one of the attributes."""
    families = ("exists", "count", "check", "more", *attributes)
    return [
        *(Arm(family) for family in ("see", "scene", "scene_check")),
        *(Arm("implied", rule) for rule in _RULES),
        *(Arm(*one) for one in product(families, _ORIGINS, (False, True))),
    ]


@dataclass(frozen=True)
class Meaning:
    """What a question asks.

    Args:
        family: "see", "scene", "scene_check", "exists", "count", "check", "more", an attribute, or
            "implied": what follows from another answer.
        phrase: The thing that it asks about; None for the whole picture.
        value: The stated value of a check, what a question of "scene" asks for, the plural of the
            other thing of "more", or the question of "see" and "implied" itself.
        kind: Of "scene_check": what the value is a value of.
        modified: Whether the phrase has an adjective.
    """

    family: str
    phrase: Noun | None = None
    value: str = ""
    kind: str = ""
    modified: bool = False

    @property
    def question(self) -> str:
        """The question.

        Example:
            >>> Meaning("check", Noun(("red", "star")), "striped").question
            'Is the red star striped?'
            >>> Meaning("pattern", Noun(("glasses",))).question
            'What pattern do the glasses have?'
        """
        if self.family in ("see", "implied"):
            return self.value
        if self.family == "scene":
            return SCENE[self.value]
        if self.phrase is None:
            return _written(_SCENE_CHECKS[self.kind][self.value])
        if self.family == "exists":
            return _written(is_there(self.phrase))
        wording = ATTRIBUTES.get(self.family) or _OTHERS[self.family]
        return _written(
            wording.format(
                be="are" if self.phrase.plural else "is",
                do="do" if self.phrase.plural else "does",
                the=self.phrase.written("the"),
                s=self.phrase.written("s"),
                value=self.value,
            )
        )


def asked_attributes(answers: Sequence[str] | None) -> list[str]:
    """The attributes that a model is asked for, by its closed answers; all if it writes its own.

    Of colors, sizes, patterns, shapes and materials it must be able to name two.

    Example:
        >>> asked = asked_attributes(["yes", "table", "white", "brown", "square", "glass", "paper"])
        >>> [name for name in ATTRIBUTES if name not in asked]
        ['size', 'pattern', 'shape', 'material']
    """
    if answers is None:
        return list(ATTRIBUTES)
    known = {SAME_WORD.get(answer, answer) for answer in answers}
    return [
        name
        for name in ATTRIBUTES
        if name not in _NAMES or len(known.intersection(_NAMES[name])) >= _FEWEST_NAMES
    ]


def knows_drawings(answers: Sequence[str] | None) -> bool:
    """Whether shapes are a twentieth of the closed answers of a model: things there are shapes."""
    shapes = len(SHAPES.intersection(answers or ()))
    return shapes >= _FEWEST_NAMES and shapes >= _OF_DRAWINGS * len(answers or ())


def attributes_of(noun: str) -> Sequence[str]:
    """What people ask about a thing, by its noun.

    Example:
        >>> "material" in attributes_of("man"), "action" in attributes_of("dog")
        (False, True)
        >>> "shape" in attributes_of("stop sign"), "shape" in attributes_of("chair")
        (True, False)
    """
    head = noun.rpartition(" ")[2]
    if head in PEOPLE:
        return _PERSON
    if head in ANIMALS:
        return _LIVING
    return (*_THING, "shape") if head in _SHAPED else _THING


def modifiers_of(noun: str) -> Sequence[str]:
    """The attributes whose values people put before a noun.

    Example:
        >>> modifiers_of("man"), modifiers_of("dog"), modifiers_of("snow")
        ((), ('size', 'color'), ('color',))
    """
    head = noun.rpartition(" ")[2]
    if head in PEOPLE:
        return ()
    if head in MASS:
        return ("color",)
    return ("size", "color") if head in ANIMALS else MODIFIERS


def named_attributes(noun: str) -> set[str]:
    """The attributes that the adjectives of a noun phrase name.

    Example:
        >>> named_attributes("large star"), named_attributes("stop sign")
        ({'size'}, set())
    """
    words = [SAME_WORD.get(word, word) for word in noun.split()[:-1]]
    return {ATTRIBUTE_OF[word] for word in words if word in ATTRIBUTE_OF}


def stated_value(attribute: str, answer: str) -> str | None:
    """The value that an answer gives to an attribute, as it can stand in "is the car ...".

    None for an answer that is no known value, such as a number or a sentence.

    Example:
        >>> stated_value("color", "Red."), stated_value("action", "riding a horse")
        ('red', 'riding a horse')
        >>> stated_value("color", "yes") is None, stated_value("material", "wood")
        (True, 'made of wood')
    """
    words = tokenise(answer)
    text = " ".join(words)
    if not words or not all(word.isalpha() for word in words) or set(words) & _NO_VALUES:
        return None
    if attribute == "action":
        return text if words[0].endswith("ing") and len(words) <= 4 else None
    if len(words) > 1 or attribute == "shape":  # "is the sign square", but no "is it circle"
        return None
    if attribute == "material":
        return f"made of {text}" if text in MATERIALS | MATERIALS_AND_THINGS else None
    # Other words may be no adjectives, such as the "table" of a model that only names things.
    return text if ATTRIBUTE_OF.get(SAME_WORD.get(text, text)) == attribute else None


_NO_VALUES = frozenset("yes no none nothing unknown unclear not the both no various multi".split())  # noqa: SIM905


def _written(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}?"
