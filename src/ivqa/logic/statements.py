"""What an answer states: bounds on the number of things, comparisons, values of the scene."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from ivqa.logic.forms import Reading
from ivqa.logic.phrases import Key, Noun, normal, phrases
from ivqa.logic.readings import read, scene_value
from ivqa.logic.words import (
    ATTRIBUTE_OF,
    DENIALS,
    NARROWER_SCENE_WORD,
    NUMBERS,
    SAME_WORD,
    SCENE_VALUES,
    SHAPES,
)
from ivqa.text.tokens import tokenise

UNBOUNDED = 10**6
"""More things than any picture shows."""


@dataclass(frozen=True)
class Count:
    """Bounds on the number of things that a noun phrase denotes.

    Args:
        noun: The noun phrase.
        key: Its meaning; narrower than the phrase can be written for "a man that is not tall".
        least: The least number.
        most: The greatest number.
        rule: What it follows from: "presupposition", "existence", "count", "value" or "mention".
        certain: Whether it holds whenever the answer is right.
    """

    noun: Noun
    key: Key
    least: int
    most: int
    rule: str
    certain: bool = True


@dataclass(frozen=True)
class Statement:
    """What an answer to a question states; all of it holds where the answer is right.

    Args:
        reading: The question.
        truth: True and False for "yes" and "no", None for any other answer.
        value: The answer in lower case, in its normal form.
        counts: Bounds on numbers.
        order: Two noun phrases, and the signs that the difference of their numbers may have.
        scene: An attribute of the scene, a value, whether it has that value, and whether that is
            certain.
        denied: Whether the answer denies the question: "none", "no car".
    """

    reading: Reading
    truth: bool | None
    value: str
    counts: tuple[Count, ...] = ()
    order: tuple[Key, Key, frozenset[int]] | None = None
    scene: tuple[str, str, bool, bool] | None = None
    denied: bool = False


_YES_NO = {"yes": True, "yeah": True, "yep": True, "no": False, "nope": False}
_AUXILIARY = re.compile("(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should) ")
_AFTER_YES = frozenset(("it", "there", "he", "she", "they", "this", "that", "the", "i"))
# The signs that |first| - |second| may have where the answer is "yes"; "no" allows the others.
_SIGNS = {"more": {1}, "fewer": {-1}, "equal": {0}}


@lru_cache(maxsize=1 << 16)
def state(question: str, answer: str) -> Statement:
    """Translates an answer to a question in plain English into what it states.

    The statement is empty where nothing is understood.

    Example:
        >>> [(one.key[0], one.least) for one in state("What color is the car?", "red").counts]
        [('car', 1), ('car', 1)]
    """
    reading = read(question)
    # "chair, table" names two things, not a table of chairs.
    words = [SAME_WORD.get(word, word) for word in tokenise(answer.replace(",", " and "))]
    value = " ".join(words)
    truth = None
    if words and (len(words) == 1 or words[1] in _AFTER_YES):
        truth = _YES_NO.get(words[0])
    # "10+", "2-3" and "<5" are no numbers.
    number = None if re.search(r"[^\w\s.,']", answer) else _number(words, reading)
    if truth is None and number is None and words and _denies(words):
        return Statement(reading, None, value, denied=True)
    if not words or (truth is None and _asks_yes_no(reading)):
        return Statement(Reading("opaque", "opaque"), None, value)
    counts = list(_presuppositions(reading, truth is False or number == 0))
    base = Statement(reading, truth, value)
    if reading.form in _SIGNS and truth is not None:
        base = replace(base, order=_order(reading, truth))
    if reading.form == "scene":
        base = replace(base, scene=_scene(reading, truth, value))
    if reading.form == "is_a":
        # "Is this a boat?" yes: there is a boat.
        named = _named(words) if reading.other is None else reading.other if truth else None
        counts += [_at_least(named, 1, "value")] if named is not None and named.asked else []
    if reading.noun is not None:
        counts += _counts(reading, truth, number, words)
    if truth or (number or 0) > 0:
        counts += [_at_least(noun, 1, "mention") for noun in reading.mentioned]
    return replace(base, counts=tuple(dict.fromkeys(counts)))


def unclear(question: str, answer: str) -> bool:
    """Whether the answer to a yes/no question is neither yes nor no, and so says nothing.

    A model that was trained without yes/no questions answers them with other words.

    Example:
        >>> unclear("Is there a car?", "chair"), unclear("Is he happy?", "chair")
        (True, True)
        >>> unclear("What is on the bed?", "chair"), unclear("Is it red or blue?", "blue")
        (False, False)
    """
    found = state(question, answer)
    return found.truth is None and not found.denied and _asks_yes_no(read(question))


def _asks_yes_no(reading: Reading) -> bool:
    if reading.form == "is_a":
        return reading.other is not None
    if reading.form == "scene":
        return bool(reading.predicate)
    if reading.form == "opaque":
        # "Is he happy?", but not "Is it red or blue?".
        return _AUXILIARY.match(reading.text) is not None and " or " not in reading.text
    return reading.form in ("exist", "check", "more", "fewer", "equal")


def _denies(words: list[str]) -> bool:
    if words[0] in DENIALS:
        return True
    if words[0] == "there":  # "there is no car"
        return bool({"no", "not", "none", "isn't", "aren't"} & set(words[1:4]))
    return words[0] in ("no", "not", "cannot", "can't", "don't", "unsure", "i")


def _number(words: list[str], reading: Reading) -> int | None:
    """The number that an answer to "how many" gives."""
    if reading.form not in ("count", "several") or not words or len(words) > 2:
        return None
    if words == ["none"]:
        return 0
    # "2 dogs" is a number of dogs; "2 hundred" and "2 or" are not the number 2.
    noun = reading.noun
    if len(words) == 2 and (noun is None or normal(words[1]) != noun.head):
        return None
    if words[0].isdecimal() and len(words[0]) < 5:
        return int(words[0])
    return NUMBERS.get(words[0])


def _at_least(noun: Noun, least: int, rule: str, *, certain: bool = True) -> Count:
    return Count(noun, noun.key, least, UNBOUNDED, rule, certain)


def _presuppositions(reading: Reading, denied: bool) -> list[Count]:
    found = [_at_least(noun, 1, "presupposition") for noun in reading.presupposed]
    # "Is the cat in the water?" no: perhaps there is none.
    usual = [_at_least(one, 1, "presupposition", certain=not denied) for one in reading.usual]
    return found + usual


def _order(reading: Reading, truth: bool) -> tuple[Key, Key, frozenset[int]]:
    assert reading.noun is not None
    assert reading.other is not None
    signs = frozenset(_SIGNS[reading.form])
    return reading.noun.key, reading.other.key, signs if truth else frozenset((-1, 0, 1)) - signs


def _scene(reading: Reading, truth: bool | None, value: str) -> tuple[str, str, bool, bool] | None:
    if reading.predicate:
        if truth is None:
            return None
        value, certain = scene_value(reading.predicate)
        if not truth and reading.predicate in NARROWER_SCENE_WORD:
            return None
        return reading.attribute, value, truth, certain
    value, certain = scene_value(re.sub(r"^(?:in|on|at) (?:the |a )?|^the ", "", value))
    known = value in SCENE_VALUES[reading.attribute]
    return (reading.attribute, value, True, certain) if known else None


def _counts(
    reading: Reading, truth: bool | None, number: int | None, words: list[str]
) -> list[Count]:
    noun = reading.noun
    assert noun is not None
    if reading.form == "exist" and truth is not None:
        if truth != reading.denied:
            return [_at_least(noun, reading.least, "existence")]
        return [Count(noun, noun.key, 0, reading.least - 1, "existence")] if reading.closed else []
    if reading.form == "count" and number is not None:
        return [Count(noun, noun.key, number, number, "count")]
    if reading.form in ("count", "several") and " ".join(words) in _MANY:
        return [_at_least(noun, 2, "mention")]
    if reading.form == "several" and number:
        return [_at_least(noun, number, "mention")]
    if reading.form in ("more", "fewer") and truth:
        greater = noun if reading.form == "more" else reading.other
        assert greater is not None
        return [_at_least(greater, 1, "comparison")]
    if reading.form in ("check", "query", "what"):
        # The phrase with what follows it: "the star left of the heart".
        there = [_at_least(noun, 1, "presupposition")] if noun.after else []
        return there + _values(reading, noun, truth, words)
    return []


def _values(reading: Reading, noun: Noun, truth: bool | None, words: list[str]) -> list[Count]:
    value = " ".join(words)
    if reading.form == "query":
        narrower = _with_value(noun, reading.attribute, value)
        if narrower is None and reading.family == "relation":
            # "What is on the table?" book
            named = _named(words)
            if named is not None:
                return [_at_least(named.narrowed(noun.after, *(noun.modifiers)), 1, "value")]
        return [] if narrower is None else [_at_least(narrower, 1, "value")]
    if reading.form == "what":
        named = _named(words)
        if named is None:
            return []
        holding = f"{reading.predicate} {named.written('s' if named.plural or named.mass else 'a')}"
        found = [_at_least(noun.narrowed(holding, normal(holding)), 1, "value")]
        # Unlike "looking at": what is looked at may be far away.
        held = reading.predicate in ("holding", "wearing", "riding", "eating", "carrying", "using")
        return [*found, _at_least(named, 1, "mention")] if held else found
    if truth is None:
        return []
    if reading.other is not None:
        return _nominal(noun, reading.other, truth)
    predicate = normal(reading.predicate)
    if reading.attribute == "verb":
        predicate = f"that {predicate}"
    if not truth:
        head, modifiers = noun.key
        return [Count(noun, (head, modifiers | {f"not {predicate}"}), 1, UNBOUNDED, "value")]
    text = reading.predicate if reading.attribute != "verb" else f"that {reading.predicate}"
    narrower = _with_value(noun, "", text) or noun.narrowed(text, predicate)
    return [_at_least(narrower, 1, "value")]


_MANY = ("many", "lots", "a lot", "several")


def _with_value(noun: Noun, attribute: str, value: str) -> Noun | None:
    """A phrase narrowed by a value of an attribute; None where it is not one of the tables."""
    value = _VALUE_WORDS.get(value, value)
    if value not in ATTRIBUTE_OF or attribute not in ("", ATTRIBUTE_OF[value]):
        return None
    if value not in SHAPES:
        return noun.narrowed(value, value)
    if noun.head not in ("thing", "object"):
        return None
    return replace(noun, words=(*noun.words[:-1], value))


_VALUE_WORDS = {"dots": "dotted", "stripes": "striped", "checks": "checkered"}


def _nominal(noun: Noun, other: Noun, truth: bool) -> list[Count]:
    """What "Is the animal a dog?" states."""
    head, modifiers = noun.key
    if not truth:
        return [Count(noun, (head, modifiers | {f"not {other.head}"}), 1, UNBOUNDED, "value")]
    if noun.head in ("thing", "object"):
        words = (*noun.words[:-1], *other.words)
        other = replace(noun, words=words, modifiers=modifiers | other.modifiers)
    return [_at_least(other, 1, "value")]


def _named(words: list[str]) -> Noun | None:
    """The noun phrase that an answer is, as "tennis racket" or "a red car"."""
    frame, nouns, _ = phrases(words)
    return nouns[0] if re.fullmatch(r"<[bi]0>", frame) and nouns[0].asked else None
