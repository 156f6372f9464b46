"""One table of phrasings, read in both directions: programs into questions and back.

A phrasing is a text with slots. {S} is any noun phrase, {N} and {M} are simple ones (no relation),
{V} is a value, {R} a relation; `:a`, `:the` and `:s` say in which form a noun phrase is written.
Parsing is tolerant of case, articles, punctuation, number and common synonyms, and of nothing else.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ivqa.scenes.programs import EXTREMES, INVERSE, Noun, Program, Things, make
from ivqa.scenes.world import COLORS, PATTERNS, PLACES, SHAPES, SIZES, TIMES, VALUES, WEATHERS
from ivqa.text.tokens import detokenise, tokenise

_PICTURE = ("", " in the picture", " in the image", " in the photo", " in this picture")

# (kind, attribute): phrasings. A "+" at the end stands for the endings of _PICTURE.
_PHRASINGS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("exist", None): (
        "is there {S:a}+",
        "are there any {S:s}+",
        "do you see {S:a}+",
        "can you see {S:a}+",
        "can you find {S:a}+",
        "does the picture show {S:a}",
        "does the image have {S:a}",
    ),
    ("count", None): (
        "how many {S:s} are there+",
        "how many {S:s} do you see+",
        "how many {S:s} can you see+",
        "how many {S:s} are in the picture",
        "how many {S:s} are shown+",
        "what number of {S:s} are there+",
        "what is the number of {S:s}+",
    ),
    ("query", "color"): (
        "what color is {S:the}",
        "what is the color of {S:the}",
        "which color is {S:the}",
        "which color does {S:the} have",
        "what color does {S:the} have",
        "{S:the} is what color",
    ),
    ("query", "shape"): (
        "what shape is {S:the}",
        "what is the shape of {S:the}",
        "which shape does {S:the} have",
        "what kind of shape is {S:the}",
        "{S:the} has what shape",
    ),
    ("query", "pattern"): (
        "what pattern does {S:the} have",
        "what pattern is on {S:the}",
        "what is the pattern of {S:the}",
        "what is the pattern on {S:the}",
        "which pattern does {S:the} have",
    ),
    ("query", "size"): (
        "what size is {S:the}",
        "what is the size of {S:the}",
        "how large is {S:the}",
        "how big is {S:the}",
        "which size does {S:the} have",
    ),
    ("check", None): ("is {S:the} {V}",),
    ("check", "color"): (
        "is {S:the} {V} in color",
        "is the color of {S:the} {V}",
        "does {S:the} look {V}",
    ),
    ("check", "shape"): ("is the shape of {S:the} a {V}", "does {S:the} look like a {V}"),
    ("check", "pattern"): ("does {S:the} look {V}", "is the pattern of {S:the} {V}"),
    ("check", "size"): (
        "does {S:the} look {V}",
        "is {S:the} {V} in size",
        "is the size of {S:the} {V}",
    ),
    ("relate", None): (
        "is {N:the} {R} {M:the}",
        "is the position of {N:the} {R} {M:the}",
        "does {N:the} appear {R} {M:the}",
    ),
    ("more", None): (
        "are there more {N:s} than {M:s}+",
        "do you see more {N:s} than {M:s}+",
        "does the picture show more {N:s} than {M:s}",
        "are {N:s} more numerous than {M:s}",
    ),
    ("fewer", None): (
        "are there fewer {N:s} than {M:s}+",
        "do you see fewer {N:s} than {M:s}+",
        "does the picture show fewer {N:s} than {M:s}",
    ),
    ("equal", None): (
        "are there as many {N:s} as {M:s}+",
        "is the number of {N:s} the same as the number of {M:s}",
        "do you see as many {N:s} as {M:s}+",
        "does the picture show as many {N:s} as {M:s}",
    ),
    **{
        ("same", name): (
            f"are {{N:the}} and {{M:the}} the same {name}",
            f"is {{N:the}} the same {name} as {{M:the}}",
            f"do {{N:the}} and {{M:the}} have the same {name}",
            f"does {{N:the}} have the same {name} as {{M:the}}",
        )
        for name in ("color", "shape", "size", "pattern")
    },
    ("larger", None): (
        "is {N:the} larger than {M:the}",
        "is {N:the} bigger than {M:the}",
        "does {N:the} look larger than {M:the}",
        "is the size of {N:the} larger than that of {M:the}",
    ),
    ("smaller", None): (
        "is {N:the} smaller than {M:the}",
        "does {N:the} look smaller than {M:the}",
        "is the size of {N:the} smaller than that of {M:the}",
    ),
    ("scene_query", "place"): (
        "where is this",
        "where was this picture taken",
        "where was this photo taken",
        "what place is this",
        "what kind of place is this",
        "what place does the picture show",
    ),
    ("scene_query", "time"): (
        "what time of day is it",
        "when was this picture taken",
        "what time of day was this photo taken",
        "what time of day does the picture show",
    ),
    ("scene_query", "weather"): (
        "what is the weather like",
        "how is the weather",
        "what kind of weather is it",
        "what weather does the picture show",
        "what is the weather",
    ),
    ("scene_check", "place"): (
        "is this {V}",
        "was this picture taken {V}",
        "are we {V}",
        "does this look like it is {V}",
    ),
    ("scene_check", "time"): (
        "is this {V}",
        "was this picture taken {V}",
        "is it a picture taken {V}",
        "does this happen {V}",
    ),
    ("scene_check", "weather"): (
        "is it {V}+",
        "is the weather {V}",
        "does the weather look {V}",
    ),
}
# Phrasings in which the relation belongs to the subject: Things(N, R, M).
_FOLDED: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("exist", None): ("is there {N:a} that is {R} {M:the}", "do you see {N:a} that is {R} {M:the}"),
    ("count", None): ("how many {N:s} are {R} {M:the}", "how many {N:s} lie {R} {M:the}"),
    ("query", "shape"): (
        "what is {R} {M:the}",
        "what do you see {R} {M:the}",
        "what lies {R} {M:the}",
    ),
}
_VALUE_PHRASES: dict[str, tuple[str, ...]] = {
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
    "cloudy": ("cloudy",),
    "large": ("large", "big"),
    "plain": ("plain",),
}
_RELATIONS: dict[str, tuple[str, ...]] = {
    "left": ("left of", "to the left of", "on the left of"),
    "right": ("right of", "to the right of", "on the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
_THINGS = ("thing", "object")
_WITH = {"striped": "stripes", "dotted": "dots", "checkered": "checks"}

_ARTICLES = {"a", "an", "the", "any", "some"}
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


def _plural(noun: str) -> str:
    return noun + "es" if noun.endswith(("s", "x")) else noun + "s"


_SAME_WORD |= {_plural(noun): noun for noun in (*SHAPES, "thing")} | {"objects": "thing"}
_ATTRIBUTE_OF = {
    value: name
    for name, values in (
        ("shape", SHAPES),
        ("color", COLORS),
        ("size", SIZES),
        ("pattern", PATTERNS),
    )
    for value in values
}


def canonical(text: str) -> tuple[str, ...]:
    """The words of a question with articles dropped and synonyms and number unified.

    >>> canonical("Are there any big red stars?")
    ('is', 'there', 'large', 'red', 'star')
    """
    words = (word for word in tokenise(text) if word not in _ARTICLES)
    return tuple(_SAME_WORD.get(word, word) for word in words)


def realise(program: Program, rng: random.Random) -> str:
    """One phrasing of the program, as VQA writes questions."""
    return detokenise(rng.choice(_fitting(program)).fill(program, rng).split())


def phrasings(program: Program) -> list[str]:
    """All phrasings of the program, each with one choice of words, in the table's order."""
    rng = random.Random(0)
    return [detokenise(template.fill(program, rng).split()) for template in _fitting(program)]


@lru_cache(maxsize=200_000)
def parse(question: str) -> Program | None:
    """The meaning of a question, or None where the grammar does not produce it.

    >>> parse("is the STAR to the right of a heart") == parse("Is the heart left of the star?")
    True
    >>> parse("What color is is the star?") is None
    True
    """
    words = canonical(question)
    if not words:
        return None
    for template in (*_BY_FIRST_WORD.get(words[0], ()), *_BY_FIRST_WORD.get("", ())):
        for slots in _match(template.pattern, words, 0, 0, {}):
            program = template.build(slots)
            if program is not None:
                return program
    return None


@dataclass(frozen=True)
class _Template:
    """One phrasing of one kind; see the module's docstring for the slots."""

    text: str
    pattern: tuple[str, ...]
    kind: str
    attribute: str | None
    folded: bool

    def fits(self, program: Program) -> bool:
        """Whether the phrasing can say what the program means."""
        flipped = {"fewer": "more", "smaller": "larger"}
        if flipped.get(self.kind, self.kind) != program.kind:
            return False
        if self.attribute not in (None, program.attribute):
            return False
        subject = program.subject
        if not self.folded:
            return True
        if subject is None or subject.relation is None:
            return False
        return "{N" in self.text or subject.noun == Noun()

    def fill(self, program: Program, rng: random.Random) -> str:
        """The phrasing with the program's words in its slots."""
        first, second, relation = program.subject, program.other, program.relation
        if self.kind in ("fewer", "smaller"):
            first, second = second, first
        if self.folded:
            assert first is not None
            anchor = first.anchor
            assert anchor is not None
            first, second, relation = Things(first.noun), Things(anchor), first.relation
        elif relation is not None and rng.random() < 0.5:
            first, second, relation = second, first, INVERSE[relation]
        elif self.kind in ("same", "equal") and rng.random() < 0.5:
            first, second = second, first
        words = self.text
        for slot, things in (("S", first), ("N", first), ("M", second)):
            for form in ("a", "the", "s"):
                mark = f"{{{slot}:{form}}}"
                if mark in words:
                    assert things is not None
                    words = words.replace(mark, _noun_phrase(things, form, rng))
        if "{R}" in words:
            assert relation is not None
            words = words.replace("{R}", rng.choice(_RELATIONS[relation]))
        if "{V}" in words:
            assert program.value is not None
            words = words.replace("{V}", self._value(program, rng))
        return words

    def _value(self, program: Program, rng: random.Random) -> str:
        assert program.value is not None
        if program.attribute == "shape" and "a {V}" not in self.text:
            return f"a {program.value}"
        return rng.choice(_VALUE_PHRASES.get(program.value, (program.value,)))

    def build(self, slots: dict[str, object]) -> Program | None:
        """The program of matched slots; None where they do not go together."""
        attribute, value = self.attribute, slots.get("V")
        if value is not None:
            attribute = _value_attribute(str(value), self.kind)
            if attribute is None or self.attribute not in (None, attribute):
                return None
        subject = slots.get("S", slots.get("N"))
        other, relation = slots.get("M"), slots.get("R")
        if self.folded:
            noun = subject.noun if isinstance(subject, Things) else Noun()
            assert isinstance(other, Things)
            subject = Things(noun, str(relation), other.noun)
            other = relation = None
        return make(
            self.kind,
            subject=subject,
            other=other,
            attribute=attribute,
            value=value,
            relation=relation,
        )


def _value_attribute(value: str, kind: str) -> str | None:
    if kind != "scene_check":
        return _ATTRIBUTE_OF.get(value)
    return next((name for name in ("place", "time", "weather") if value in VALUES[name]), None)


def _noun_phrase(things: Things, form: str, rng: random.Random) -> str:
    noun = things.noun
    trailing = noun.pattern in _WITH and things.relation is None and rng.random() < 0.2
    words = [
        word
        for word in (noun.size, None if trailing else noun.pattern, noun.color)
        if word is not None
    ]
    if noun.size == "large" and rng.random() < 0.3:
        words[0] = "big"
    head = noun.shape or rng.choice(_THINGS)
    words.append(_plural(head) if form == "s" else head)
    if things.extreme is not None:
        words.insert(0, things.extreme)
    if trailing:
        assert noun.pattern is not None
        words += ["with", _WITH[noun.pattern]]
    if things.relation is not None:
        assert things.anchor is not None
        words.append(rng.choice(_RELATIONS[things.relation]))
        words.append(_noun_phrase(Things(things.anchor), "the", rng))
    phrase = " ".join(words)
    if form == "the":
        return "the " + phrase
    if form == "a":
        return ("an " if phrase[0] in "aeiou" else "a ") + phrase
    return phrase


# Parsing


def _match(
    pattern: tuple[str, ...], words: tuple[str, ...], at: int, start: int, slots: dict[str, object]
) -> Iterator[dict[str, object]]:
    """All ways in which pattern[at:] matches words[start:] to their end."""
    if at == len(pattern):
        if start == len(words):
            yield slots
        return
    part = pattern[at]
    if part[0] != "{":
        if start < len(words) and words[start] == part:
            yield from _match(pattern, words, at + 1, start + 1, slots)
        return
    for end, value in _SLOTS[part](words, start):
        yield from _match(pattern, words, at + 1, end, {**slots, part[1]: value})


def _nouns(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Noun]]:
    said: dict[str, str] = {}
    at = start
    while at < len(words):
        word = words[at]
        name = _ATTRIBUTE_OF.get(word)
        at += 1
        if word == "thing" or name == "shape":
            if name is not None:
                said["shape"] = word
            yield at, Noun(**said)
            pattern = {"stripes": "striped", "dots": "dotted", "checks": "checkered"}
            tail = words[at : at + 2]
            with_pattern = len(tail) == 2 and tail[0] == "with" and tail[1] in pattern
            if with_pattern and "pattern" not in said:
                yield at + 2, Noun(**said, pattern=pattern[tail[1]])
            return
        if name is None or name in said:
            return
        said[name] = word


def _simple(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    extreme = words[start] if start < len(words) and words[start] in EXTREMES else None
    for end, noun in _nouns(words, start + (extreme is not None)):
        yield end, Things(noun, extreme=extreme)


def _related(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    for end, things in _simple(words, start):
        yield end, things
        if things.extreme is not None:
            continue
        middle = end + 2 if words[end : end + 2] == ("that", "is") else end
        for after, relation in _relation(words, middle):
            for last, anchor in _nouns(words, after):
                yield last, Things(things.noun, relation, anchor)


def _plain(words: tuple[str, ...], start: int) -> Iterator[tuple[int, Things]]:
    return (found for found in _simple(words, start) if found[1].extreme is None)


def _relation(words: tuple[str, ...], start: int) -> Iterator[tuple[int, str]]:
    for phrase, relation in _RELATION_WORDS:
        if words[start : start + len(phrase)] == phrase:
            yield start + len(phrase), relation


def _value(words: tuple[str, ...], start: int) -> Iterator[tuple[int, str]]:
    for phrase, value in _VALUE_WORDS.get(words[start] if start < len(words) else "", ()):
        if words[start : start + len(phrase)] == phrase:
            yield start + len(phrase), value


_SLOTS = {"{S}": _related, "{N}": _plain, "{M}": _plain, "{R}": _relation, "{V}": _value}
_RELATION_WORDS = sorted(
    {(canonical(phrase), name) for name, phrases in _RELATIONS.items() for phrase in phrases}
)
_VALUE_WORDS: dict[str, list[tuple[tuple[str, ...], str]]] = {}
for _word in (*SHAPES, *COLORS, *SIZES, *PATTERNS, *PLACES, *TIMES, *WEATHERS):
    for _phrase in sorted({canonical(item) for item in _VALUE_PHRASES.get(_word, (_word,))}):
        _VALUE_WORDS.setdefault(_phrase[0], []).append((_phrase, _word))


def _templates() -> list[_Template]:
    built = []
    for table, folded in ((_PHRASINGS, False), (_FOLDED, True)):
        for (kind, attribute), texts in table.items():
            for text in texts:
                endings = _PICTURE if text.endswith("+") else ("",)
                for ending in endings:
                    whole = text.rstrip("+") + ending
                    built.append(_Template(whole, _pattern(whole), kind, attribute, folded))
    return built


def _pattern(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    for word in text.split():
        parts += [f"{word[:2]}}}"] if word[0] == "{" else canonical(word)
    return tuple(parts)


def _fitting(program: Program) -> list[_Template]:
    kinds = {"more": ("more", "fewer"), "larger": ("larger", "smaller")}
    candidates = (
        template for kind in kinds.get(program.kind, (program.kind,)) for template in _BY_KIND[kind]
    )
    return [template for template in candidates if template.fits(program)]


_BY_KIND: dict[str, list[_Template]] = {}
_BY_FIRST_WORD: dict[str, list[_Template]] = {}
for _template in _templates():
    _BY_KIND.setdefault(_template.kind, []).append(_template)
    _first = _template.pattern[0]
    _BY_FIRST_WORD.setdefault("" if _first[0] == "{" else _first, []).append(_template)
