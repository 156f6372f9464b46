"""The grammar of the questions: `realise` writes a program as a question, `parse` reads it back.

Both read the phrasings of `ivqa.scenes.phrasings`, so that every question that is written can be
parsed. Parsing ignores case, articles, punctuation and number, knows the synonyms of
`ivqa.scenes.words`, and accepts nothing else.
"""

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain

from ivqa.scenes.phrasings import Phrasing, fitting, starting_with
from ivqa.scenes.programs import EXTREMES, INVERSE, Noun, Program, Things, make
from ivqa.scenes.words import (
    ATTRIBUTE_OF,
    PATTERN_NOUNS,
    RELATION_PHRASES,
    THING_NOUNS,
    VALUE_PHRASES,
    canonical,
    plural,
)
from ivqa.scenes.world import SCENE_ATTRIBUTES, VALUES
from ivqa.text.tokens import detokenise

Slots = dict[str, object]
"""What the slots of a phrasing hold, by the letter of the slot: Things, a relation or a value."""


def realise(program: Program, rng: random.Random) -> str:
    """Writes a program as a question, in one of its phrasings, as VQA writes questions.

    `rng` chooses the phrasing, synonyms and the order of equal parts.
    """
    return detokenise(fill(rng.choice(fitting(program)), program, rng).split())


def other_wordings(question: str, rng: random.Random) -> list[str]:
    """Writes the meaning of a question in each phrasing of the grammar.

    `rng` chooses synonyms and the order of equal parts.

    Returns:
        Questions of the same meaning, perhaps with the question itself among them; empty where the
        grammar does not produce the question.

    Example:
        >>> other_wordings("Is it cloudy?", random.Random(0))[-2:]
        ['Is the weather cloudy?', 'Does the weather look cloudy?']
    """
    program = parse(question)
    if program is None:
        return []
    texts = [detokenise(fill(one, program, rng).split()) for one in fitting(program)]
    # A phrasing with a word of several readings may be read as another meaning.
    return [text for text in texts if parse(text) == program]


@lru_cache(maxsize=200_000)
def parse(question: str) -> Program | None:
    """Reads the meaning of any text: a program in its normal form.

    None where the grammar does not produce the question.

    Example:
        >>> parse("is the STAR to the right of a heart") == parse("Is the heart left of the star?")
        True
        >>> parse("What color is is the star?") is None
        True
    """
    words = canonical(question)
    if not words:
        return None
    for phrasing in starting_with(words[0]):
        for slots in _matches(phrasing.pattern, words, 0, 0, {}):
            program = _program(phrasing, slots)
            if program is not None:
                return program
    return None


# Realisation: from a program to a question.


def fill(phrasing: Phrasing, program: Program, rng: random.Random) -> str:
    """Writes the words of a program into the slots of a phrasing, one of `fitting(program)`.

    `rng` chooses synonyms, and which of two equal parts comes first. The question is in lower case,
    without punctuation.
    """
    first, second, relation = program.subject, program.other, program.relation
    if phrasing.kind in ("fewer", "smaller"):
        first, second = second, first
    if phrasing.folded:
        assert first is not None
        anchor = first.anchor
        assert anchor is not None
        first, second, relation = Things(first.noun), Things(anchor), first.relation
    elif relation is not None and rng.random() < 0.5:
        # A program has only "left" and "above"; half of its questions say "right" and "below".
        first, second, relation = second, first, INVERSE[relation]
    elif phrasing.kind in ("same", "equal") and rng.random() < 0.5:
        first, second = second, first
    words = phrasing.text
    for slot, things in (("S", first), ("N", first), ("M", second)):
        for form in ("a", "the", "s"):
            # A phrasing has each slot at most once.
            mark = f"{{{slot}:{form}}}"
            if mark in words:
                assert things is not None
                words = words.replace(mark, _noun_phrase(things, form, rng))
    if "{R}" in words:
        assert relation is not None
        words = words.replace("{R}", rng.choice(RELATION_PHRASES[relation]))
    if "{V}" in words:
        words = words.replace("{V}", _value_phrase(phrasing, program, rng))
    return words


def _value_phrase(phrasing: Phrasing, program: Program, rng: random.Random) -> str:
    assert program.value is not None
    # "is the red thing a star", but "is the shape of the red thing a {V}".
    if program.attribute == "shape" and "a {V}" not in phrasing.text:
        return f"a {program.value}"
    return rng.choice(VALUE_PHRASES.get(program.value, (program.value,)))


def _noun_phrase(things: Things, form: str, rng: random.Random) -> str:
    noun = things.noun
    # "a red star with stripes" instead of "a striped red star".
    trailing = noun.pattern in PATTERN_NOUNS and things.relation is None and rng.random() < 0.2
    words = [
        word
        for word in (noun.size, None if trailing else noun.pattern, noun.color)
        if word is not None
    ]
    if noun.size == "large" and rng.random() < 0.3:
        # The size is the first word of the phrase.
        words[0] = "big"
    head = noun.shape or rng.choice(THING_NOUNS)
    words.append(plural(head) if form == "s" else head)
    if things.extreme is not None:
        words.insert(0, things.extreme)
    if trailing:
        assert noun.pattern is not None
        words += ["with", PATTERN_NOUNS[noun.pattern]]
    if things.relation is not None:
        assert things.anchor is not None
        words.append(rng.choice(RELATION_PHRASES[things.relation]))
        words.append(_noun_phrase(Things(things.anchor), "the", rng))
    phrase = " ".join(words)
    if form == "the":
        return "the " + phrase
    if form == "a":
        return ("an " if phrase[0] in "aeiou" else "a ") + phrase
    return phrase


# Parsing: from a question to a program. Each reader of a slot takes the words and a start, and
# yields every possible end of the slot with its content.


def _matches(
    pattern: tuple[str, ...], words: tuple[str, ...], part: int, start: int, slots: Slots
) -> Iterator[Slots]:
    """All ways in which pattern[part:] matches words[start:] to their end."""
    if part == len(pattern):
        if start == len(words):
            yield slots
        return
    expected = pattern[part]
    if expected[0] != "{":
        if start < len(words) and words[start] == expected:
            yield from _matches(pattern, words, part + 1, start + 1, slots)
        return
    for end, value in _READERS[expected](words, start):
        yield from _matches(pattern, words, part + 1, end, {**slots, expected[1]: value})


def _program(phrasing: Phrasing, slots: Slots) -> Program | None:
    """The program of matched slots; None where the value is not one of the attribute."""
    attribute, value = phrasing.attribute, slots.get("V")
    if value is not None:
        attribute = _attribute_of(str(value), phrasing.kind)
        if attribute is None or phrasing.attribute not in (None, attribute):
            return None
    subject = slots.get("S", slots.get("N"))
    other, relation = slots.get("M"), slots.get("R")
    if phrasing.folded:
        # "What is left of the star?" has no noun, so its subject is any thing.
        noun = subject.noun if isinstance(subject, Things) else Noun()
        assert isinstance(other, Things)
        subject = Things(noun, str(relation), other.noun)
        other = relation = None
    return make(
        phrasing.kind,
        subject=subject,
        other=other,
        attribute=attribute,
        value=value,
        relation=relation,
    )


def _attribute_of(value: str, kind: str) -> str | None:
    if kind != "scene_check":
        return ATTRIBUTE_OF.get(value)
    return next((name for name in SCENE_ATTRIBUTES if value in VALUES[name]), None)


def _nouns(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Noun]]:
    """Values of distinct attributes, then a shape or "thing", then perhaps "with stripes"."""
    said: dict[str, str] = {}
    at = start
    while at < len(words):
        word = words[at]
        name = ATTRIBUTE_OF.get(word)
        at += 1
        if word == "thing" or name == "shape":
            if name is not None:
                said["shape"] = word
            # Two readings: without and with a pattern behind the noun.
            yield at, Noun(**said)
            tail = words[at : at + 2]
            with_pattern = len(tail) == 2 and tail[0] == "with" and tail[1] in _NOUN_PATTERNS
            if with_pattern and "pattern" not in said:
                yield at + 2, Noun(**said, pattern=_NOUN_PATTERNS[tail[1]])
            return
        if name is None or name in said:
            return
        said[name] = word


def _simple_phrases(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    extreme = words[start] if start < len(words) and words[start] in EXTREMES else None
    for end, noun in _nouns(words, start + (extreme is not None)):
        yield end, Things(noun, extreme=extreme)


def _subjects(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    """A noun phrase, and after it perhaps a relation to another one: the slot {S}."""
    for end, things in _simple_phrases(words, start):
        yield end, things
        # In the grammar, a phrase with an extreme has no relation.
        if things.extreme is not None:
            continue
        middle = end + 2 if words[end : end + 2] == ("that", "is") else end
        for after, relation in _relations(words, middle):
            for last, anchor in _nouns(words, after):
                yield last, Things(things.noun, relation, anchor)


def _plain_phrases(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    return (found for found in _simple_phrases(words, start) if found[1].extreme is None)


def _relations(words: tuple[str, ...], start: int) -> Iterator[tuple[int, str]]:
    for phrase, relation in _RELATION_WORDS:
        if words[start : start + len(phrase)] == phrase:
            yield start + len(phrase), relation


def _values(words: tuple[str, ...], start: int) -> Iterator[tuple[int, str]]:
    for phrase, value in _VALUE_WORDS.get(words[start] if start < len(words) else "", ()):
        if words[start : start + len(phrase)] == phrase:
            yield start + len(phrase), value


_READERS: dict[str, Callable[[tuple[str, ...], int], Iterator[tuple[int, object]]]] = {
    "{S}": _subjects,
    "{N}": _plain_phrases,
    "{M}": _plain_phrases,
    "{R}": _relations,
    "{V}": _values,
}
_NOUN_PATTERNS = {noun: pattern for pattern, noun in PATTERN_NOUNS.items()}
# Sorted, because the order of a set changes from run to run.
_RELATION_WORDS = sorted(
    {(canonical(phrase), name) for name, phrases in RELATION_PHRASES.items() for phrase in phrases}
)
# The phrases of all values, by their first word.
_VALUE_WORDS: dict[str, list[tuple[tuple[str, ...], str]]] = {}
for _word in chain.from_iterable(VALUES.values()):
    for _phrase in sorted({canonical(item) for item in VALUE_PHRASES.get(_word, (_word,))}):
        _VALUE_WORDS.setdefault(_phrase[0], []).append((_phrase, _word))
