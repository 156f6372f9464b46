"""Questions whose answers follow from an answer, after Ribeiro, Guestrin and Singh (ACL 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ivqa.logic.phrases import Noun, generalisations
from ivqa.logic.readings import read
from ivqa.logic.statements import Count, Statement, state
from ivqa.logic.words import (
    ANCHORING,
    ANTONYM,
    ATTRIBUTE_OF,
    ORDERING,
    PREPOSITIONS,
    SCENE_PHRASE,
    SCENE_VALUES,
    VALUES_OF,
    plural,
)
from ivqa.text.tokens import detokenise, tokenise


@dataclass(frozen=True)
class Implication:
    """A question, and the answer that it must have.

    Args:
        question: The implied question.
        answer: Its answer.
        rule: Name of the rule, such as "presupposition".
        certain: Whether the rule holds for every true answer. One that is not certain holds for
            most: a striped thing is red and also blue.
    """

    question: str
    answer: str
    rule: str
    certain: bool


def implications(question: str, answer: str) -> list[Implication]:
    """Questions whose answers follow from one answer about an image.

    Args:
        question: A question in plain English.
        answer: An answer to it, right or wrong.

    Returns:
        What must be answered as well if `answer` is right, without the question itself, the certain
        ones first; empty where nothing is known to follow.

    Example:
        >>> for implied in implications("What color is the cup?", "red"):
        ...     print(implied.question, implied.answer, implied.rule, implied.certain)
        Is there a cup? yes presupposition True
        Is there a red cup? yes necessary True
        Is the cup red? yes equivalence True
        Is the cup blue? no exclusion False
    """
    return list(_implications(question, answer))


# Models answer the same questions about many images.
@lru_cache(maxsize=1 << 16)
def _implications(question: str, answer: str) -> tuple[Implication, ...]:
    statement = state(question, answer)
    found: dict[str, Implication] = {}
    own = tokenise(question)
    for text, implied, rule, certain in _implied(statement):
        written = detokenise(text.split())
        # The first rule that gives a question names it; a certain one comes before others.
        if tokenise(written) != own and (
            written not in found or (certain and not found[written].certain)
        ):
            found[written] = Implication(written, implied, rule, certain)
    return tuple(sorted(found.values(), key=lambda one: not one.certain))


def presuppositions(question: str) -> list[str]:
    """Questions that ask whether the things are there that a question takes for granted.

    One for each definite noun phrase, such as "the man" and "his hat"; each is to be answered "yes"
    before the question itself has an answer.

    Example:
        >>> presuppositions("Is the man's dog next to the old car?")
        ['Is there a dog?', 'Is there an old car?']
    """
    reading = read(question)
    nouns = [one for one in (*reading.presupposed, *reading.usual) if one.asked]
    return list(dict.fromkeys(detokenise(is_there(noun).split()) for noun in nouns))


def family(question: str) -> str:
    """The kind of a question, for which a model has one reliability.

    One of `ivqa.logic.forms.FAMILIES`.

    Example:
        >>> family("How many dogs are there?"), family("Why is he sad?")
        ('count', 'opaque')
    """
    return read(question).family


def is_there(noun: Noun, ask: str = "") -> str:
    """The question whether there is such a thing, "is there" or with another beginning."""
    if noun.mass or noun.plural:
        start = ask or ("is there" if noun.mass else "are there")
        return f"{start} any {noun.written('s')}"
    return f"{ask or 'is there'} {noun.written('a')}"


Implied = tuple[str, str, str, bool]
"""Question, answer, rule and whether it is certain."""


def _implied(statement: Statement) -> Iterator[Implied]:
    for count in statement.counts:
        yield from _of_count(statement, count)
    yield from _of_value(statement)
    yield from _of_order(statement)
    yield from _of_scene(statement)


def _of_count(statement: Statement, count: Count) -> Iterator[Implied]:
    """Existence, its wordings, and what is wider."""
    noun, rule = count.noun, count.rule
    # The phrase as it is written is wider than its meaning in "not tall": it is there as well.
    if count.least > 0 and (count.key == noun.key or rule != "value"):
        name = "equivalence" if rule in ("existence", "count") else "necessary"
        name = rule if rule == "presupposition" else name
        if noun.asked and _good(noun):
            yield is_there(noun), "yes", name, count.certain
        broad, certain = noun.broader()
        if broad.asked and (noun.after or broad.words != noun.words):
            yield is_there(broad), "yes", "necessary", count.certain and certain
        for head in generalisations(noun.head):
            general = Noun((plural(head) if noun.plural else head,))
            if general.asked:
                yield is_there(general), "yes", "hypernym", False
    if rule not in ("existence", "count") or not _good(noun):
        return
    if rule == "existence" and statement.reading.least == 1:
        yield is_there(noun, "do you see"), "yes" if count.least else "no", "wording", True
    if count.most == 0:
        yield is_there(noun), "no", "equivalence", True
    if noun.mass:
        return
    if count.most == 0:
        yield _how_many(noun), "0", "equivalence", True
    elif count.least > 1 or count.most == 1:
        text = f"is there more than one {noun.written('a').split(' ', 1)[1]}"
        yield text, "yes" if count.least > 1 else "no", "bounds", True
    if rule == "count" and not noun.after:
        yield f"how many {noun.written('s')} can you see", str(count.least), "wording", True


def _how_many(noun: Noun) -> str:
    """The question how many there are, such as "How many stars are left of the heart?"."""
    several = replace(noun, after="").written("s")
    if noun.after.startswith("with "):
        return f"how many {noun.written('s')} are there"
    return f"how many {several} are {noun.after or 'there'}"


def _of_value(statement: Statement) -> Iterator[Implied]:
    """A value of an attribute, and those that it excludes."""
    reading = statement.reading
    noun = reading.noun
    if noun is None or reading.form not in ("query", "check") or not statement.counts:
        return
    the = noun.written("the")
    verb = "are" if noun.plural else "is"
    stated = reading.predicate if reading.form == "check" else _stated(statement)
    name = ATTRIBUTE_OF.get(stated)
    if reading.form == "query" and reading.family == "value" and reading.attribute == name:
        value = f"a {stated}" if name == "shape" else stated
        yield f"{verb} {the} {value}", "yes", "equivalence", True
    if statement.truth is False or not stated:
        return
    if reading.form == "check" and statement.truth and name in ("color", "pattern"):
        ask = f"what color {verb} {the}" if name == "color" else f"what pattern does {the} have"
        yield ask, stated, "equivalence", False
    if name in ("color", "pattern") and reading.family in ("value", "attribute"):
        yield f"{verb} {the} {_another(VALUES_OF[name], stated)}", "no", "exclusion", False
    elif stated in ANTONYM and reading.form == "check":
        yield f"{verb} {the} {ANTONYM[stated]}", "no", "exclusion", False


def _stated(statement: Statement) -> str:
    """The value that an answer to a "query" gives the things."""
    for count in statement.counts:
        if count.rule == "value":
            return count.noun.words[-1 if statement.reading.attribute == "shape" else 0]
    return ""


def _of_order(statement: Statement) -> Iterator[Implied]:
    reading = statement.reading
    if statement.order is None or reading.noun is None or reading.other is None:
        return
    first, second = reading.noun.written("s"), reading.other.written("s")
    if statement.truth:
        others = {
            "more": ("fewer", "equal"),
            "fewer": ("more", "equal"),
            "equal": ("more", "fewer"),
        }
        for form in others[reading.form]:
            yield _compare(form, first, second), "no", "comparison", True
    if reading.form != "equal":
        turned = "fewer" if reading.form == "more" else "more"
        answer = "yes" if statement.truth else "no"
        yield _compare(turned, second, first), answer, "wording", True


def _compare(form: str, first: str, second: str) -> str:
    if form == "equal":
        return f"are there as many {first} as {second}"
    return f"are there {form} {first} than {second}"


def _of_scene(statement: Statement) -> Iterator[Implied]:
    if statement.scene is None:
        return
    name, value, holds, certain = statement.scene
    answer = "yes" if holds else "no"
    yield _scene_question(name, value), answer, "scene", certain
    yield _scene_question(name, value, other_wording=True), answer, "scene", certain
    if holds and name in ("time", "setting") and value in SCENE_VALUES[name][:2]:
        other = SCENE_VALUES[name][value == SCENE_VALUES[name][0]]
        yield _scene_question(name, other), "no", "scene", certain
    elif holds:
        other = _another(SCENE_VALUES[name], value)
        yield _scene_question(name, other), "no", "scene", False


def _another(values: tuple[str, ...], value: str) -> str:
    """The next of the common values."""
    return values[(values.index(value) + 1) % min(len(values), 6)]


def _scene_question(name: str, value: str, *, other_wording: bool = False) -> str:
    if name == "weather":
        return f"is the weather {value}" if other_wording else f"is it {value}"
    start = "is this" if other_wording else "was this picture taken"
    return f"{start} {SCENE_PHRASE.get(value, f'in a {value}')}"


def _good(noun: Noun) -> bool:
    """Whether the phrase is good English behind "is there a"."""
    words = [*noun.words, *noun.after.split()]
    if (not ORDERING.isdisjoint(words) and not noun.after.startswith(ANCHORING)) or len(words) > 9:
        return False
    first = noun.after.split(" ")[0]
    return not first or first.endswith(("ing", "ed")) or noun.after.startswith(PREPOSITIONS)
