"""What a question of VQA asks: its kind, its noun phrases, and the things that it presupposes."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from ivqa.logic.phrases import DEFINITE, Noun, normal, phrases
from ivqa.logic.words import (
    ANCHORING,
    MEASURES,
    NUMBERS,
    SAME_WORD,
    SCENE_ATTRIBUTE,
    SCENE_WORD,
    UNASKED,
    singular,
)
from ivqa.text.tokens import tokenise

FAMILIES = (
    "count", "existence", "attribute", "value", "relation", "comparison", "scene", "opaque",
)  # fmt: skip
"""The kinds of questions, by what an answer says: how many there are; whether there is one; whether
a thing has a property; which value of an attribute it has; how things stand to each other; which
are more; the time, weather or place of the picture; anything else."""


@dataclass(frozen=True)
class Reading:
    """What a question asks.

    Args:
        family: One of `FAMILIES`.
        form: "exist", "count", "check", "is_a", "query", "what", "kind", "several", "more", "fewer", "equal", "scene" or
            "opaque".
        noun: The things that it is about.
        other: The second things of a comparison, or the noun that a "check" predicates.
        attribute: The attribute of a "query" or a "scene".
        predicate: What a "check" or a "what" says of the things; the value of a "scene".
        text: The question in its normal form: the same for wordings of one question.
        least: Of "exist", the number of things that "yes" says there are, at least.
        closed: Of "exist", whether "no" says that there are fewer than `least`.
        presupposed: Definite noun phrases, which are there whatever the answer is.
        usual: Definite noun phrases that "no" leaves open.
        mentioned: Indefinite noun phrases that "yes" says are there: "wearing a hat".
        fixed: Whether the text has one referent: no pronoun and no definite phrase in it.
    """

    family: str
    form: str
    noun: Noun | None = None
    other: Noun | None = None
    attribute: str = ""
    predicate: str = ""
    text: str = ""
    least: int = 1
    closed: bool = True
    presupposed: tuple[Noun, ...] = ()
    usual: tuple[Noun, ...] = ()
    mentioned: tuple[Noun, ...] = ()
    fixed: bool = False


_PICTURE = r"(?:(?:in|on|of) (?:the|this|that|these) (?:picture|pictures)|in view|here|shown|pictured|visible|depicted)"
# Wordings of one question, rewritten before noun phrases are found.
_WORDINGS = [
    (re.compile(pattern), new)
    for pattern, new in (
        (r"^(?:in the picture|okay|so|and|hey) ", ""),
        (rf" {_PICTURE}$", ""),
        (rf" {_PICTURE}$", ""),
        (r"^what(?: is the)? number of (.+?)(?: are there)?$", r"how many \1 are there"),
        (r"^how many (.+?) (?:do you see|can you see|can be seen|do you count|can you find|can you count|do you spot)\b", r"how many \1 are there"),
        (r"^(?:do|can|could) you (?:see|find|notice|spot) (an?|any|no|more|fewer|as many|some)\b", r"is there \1"),
        (r"^does (?:the|this) picture (?:show|have|contain) (an?|any|no|more|fewer|as many|some)\b", r"is there \1"),
        (r"^(?:are|were|was) there\b", "is there"),
        (r"^is there (?:a lot|lots|plenty|a bunch|a number) of\b", "is there many"),
        (r"^(.+) is what color$", r"what color is \1"),
        (r"^(.+) has what shape$", r"what shape is \1"),
        (r"^what kind of (shape|color|pattern)\b", r"what \1"),
        (r"^what is the (color|shape|size|pattern) (?:of|on) ", r"what \1 is "),
        (r"^what pattern is on ", "what pattern is "),
        (r"^what colors (?=is|are|do)", "what color "),
        (r"^what color (are|was|were) ", "what color is "),
        (r"^what (color|shape|size|pattern) (?:do|does) (.+) have$", r"what \1 is \2"),
        (r"^how (?:big|large) is ", "what size is "),
        (r"^is the (?:color|pattern|size) of (.+) (\S+)$", r"is \1 \2"),
        (r"^is the position of ", "is "),
        (r"^is the shape of (.+) (an? \S+)$", r"is \1 \2"),
        (r"^is (.+) in (?:color|size)$", r"is \1"),
        (r"^(?:does|do) ((?:the|this|that|these|those) .+) (?:look|appear|seem) (?:like )?(.+)$", r"is \1 \2"),
        (r"^is (the .+) (?:the same number as|more numerous than) (.+)$", r"is there more \1 than \2"),
        (r"^are (.+) more numerous than (.+)$", r"is there more \1 than \2"),
        (r"^is the number of (.+) the same as the number of (.+)$", r"is there as many \1 as \2"),
        (r"\bto the (left|right) of\b", r"\1 of"),
        (r"\bon the (left|right) (?:side )?of\b", r"\1 of"),
        (r"\b(?:all|both|each|most|some|any|none) of (the|these|those|this)\b", r"\1"),
        (r"\bblack and white\b", "black-and-white"),
        (r"\bthat (?:is|are) (?=(?:left|right|above|below|behind|under|over|near|next) )", ""),
    )
]  # fmt: skip
_UNDER = {"over": "above", "under": "below", "underneath": "below", "beneath": "below"}
_SCENE_FORMS = [
    (re.compile(pattern), attribute)
    for pattern, attribute in (
        (r"where (?:is|was) (?:this|this picture taken|the picture taken|this taken)", "place"),
        (r"what (?:kind of )?place (?:is this|does the picture show)", "place"),
        (r"what (?:time of day )(?:is it|is this|was this picture taken|does the picture show)", "time"),
        (r"when was this picture taken", "time"),
        (r"(?:what is|how is) the weather(?: like)?(?: today)?", "weather"),
        (r"what (?:kind of )?weather (?:is it|is this|does the picture show)", "weather"),
        (
            r"(?:is|was) (?:this picture taken|the picture taken|it a picture taken|the weather|this picture|this|it) "
            r"(?:a )?(?:in the |in a |at the |on the |on a |at |during the |during )?(.+?)(?: taken| out)?",
            "",
        ),
        (r"(?:are we|does this look like it is|does this happen) (?:in the |in a |at the |on a |at |during the )?(.+)", ""),
    )
]  # fmt: skip
_NOUN = r"<([a-z])(\d+)>"
_ANY_PHRASE = re.compile(_NOUN)
_PREPOSITION = (
    r"(?:left of|right of|in front of|on top of|next to|close to|inside of|out of|above|below|behind|"
    r"under|over|beside|between|near|on|in|at|with|inside|outside|by|around|against|along|across|from|of)"
)
_RELATIVE = rf"{_PREPOSITION} <[a-z]\d+>"
_PRONOUN = re.compile(r"\b(?:he|she|it|they|him|his|her|its|their|them|this|that|these|those|you|we)\b")


@lru_cache(maxsize=1 << 18)
def read(question: str) -> Reading:
    """Reads a question.

    Args:
        question: Any text.

    Returns:
        What it asks; of the family "opaque" where it is not understood.
    """
    words = _words(question)
    text = " ".join(words)
    for pattern, new in _WORDINGS:
        text = pattern.sub(new, text)
    text = " ".join(_UNDER.get(word, word) for word in text.split())
    scene = _scene(text)
    if scene is not None:
        return scene
    prefix = _PREFIX.match(text)
    start = prefix.end() if prefix else 0
    frame, nouns, written = phrases(text[start:].split())
    frame = f"{text[:start]}{frame}"
    question = _Question(frame, nouns, written)
    reading = None
    if not _NOT_READ.search(frame):
        found = (
            build(match, question)
            for form, build in _FORMS if (match := form.fullmatch(frame)) is not None
        )  # fmt: skip
        reading = next((one for one in found if one is not None), None)
    reading = reading or Reading("opaque", "opaque")
    presupposed, usual = _presupposed(question, reading)
    fixed = not _PRONOUN.search(text) and not any(one.determiner in DEFINITE for one in nouns)
    mentioned = tuple(nouns[int(number)] for number in _MENTION.findall(frame))
    return replace(
        reading, text=normal(text), presupposed=presupposed, usual=usual, mentioned=mentioned,
        fixed=fixed,
    )  # fmt: skip


@dataclass(frozen=True)
class _Question:
    """A question with its noun phrases taken out."""

    frame: str
    nouns: list[Noun]
    written: list[str]

    def noun(self, number: str, after: str | None = None) -> Noun:
        """A noun phrase, narrowed by what follows it."""
        found = self.nouns[int(number)]
        return found if not after else self.narrow(found, after)

    def narrow(self, noun: Noun, predicate: str) -> Noun:
        """A noun phrase narrowed by a piece of the frame."""
        text = self.plain(predicate)
        return noun.narrowed(text, normal(text))

    def plain(self, piece: str) -> str:
        """A piece of the frame in words."""
        return _ANY_PHRASE.sub(lambda found: self.written[int(found[2])], piece)

    def number(self, number: str) -> int | None:
        """The number that a noun phrase starts with."""
        first = self.written[int(number)].split()[0]
        return int(first) if first.isdigit() else NUMBERS.get(first)


def _words(question: str) -> list[str]:
    words = []
    for word in tokenise(question):
        if word.endswith("n't") and len(word) > 3:
            words += [{"ca": "can", "wo": "will"}.get(word[:-3], word[:-3]), "not"]
        elif word.endswith("'s"):
            stem = word[:-2]
            words += [stem, "is" if stem in _BEFORE_IS else "'s"]
        elif word.endswith("s'"):
            words += [word[:-1], "'s"]
        else:
            words += SAME_WORD.get(word, word).split()
    return words


def _scene(text: str) -> Reading | None:
    """A question about the time, the weather or the place of the picture."""
    for form, attribute in _SCENE_FORMS:
        found = form.fullmatch(text)
        if found is None:
            continue
        if attribute:
            return Reading("scene", "scene", attribute=attribute, text=normal(text), fixed=True)
        value = scene_value(found[1])
        if value in SCENE_ATTRIBUTE:
            return Reading(
                "scene", "scene", attribute=SCENE_ATTRIBUTE[value], predicate=value,
                text=normal(text), fixed=True,
            )  # fmt: skip
    return None


def scene_value(word: str) -> str:
    """The value of the scene that a word names, or the word."""
    return SCENE_WORD.get(word, word)


def _exist(found: re.Match[str], asked: _Question) -> Reading | None:
    kind, number, after = found[1], found[2], found[3]
    if not _narrowing(after):
        return None
    noun = asked.noun(number, after)
    count = asked.number(number) if kind == "c" else None
    if kind == "c" and count is None or kind in DEFINITE:
        return None
    # "Are there two cars?" no: perhaps three.
    return Reading(
        "existence", "exist", noun, least=count or 1, closed=kind != "c",
        predicate="no" if kind == "n" else "",
    )  # fmt: skip


def _more_than(found: re.Match[str], asked: _Question) -> Reading | None:
    count = asked.number(found[2])
    if count is None or not _narrowing(found[3]):
        return None
    return Reading("count", "exist", asked.noun(found[2], found[3]), least=count + 1)


def _many(found: re.Match[str], asked: _Question) -> Reading | None:
    if not _narrowing(found[3]):
        return None
    noun = asked.noun(found[2], found[3])
    least = 2 if noun.plural else 1
    return Reading("existence", "exist", noun, least=least, closed=False)


def _compare(found: re.Match[str], asked: _Question) -> Reading | None:
    form = {"as many": "equal"}.get(found[1], found[1])
    first, second = asked.noun(found[3]), asked.noun(found[5])
    return Reading("comparison", form, first, second)


def _count(found: re.Match[str], asked: _Question) -> Reading | None:
    noun = asked.noun(found[2])
    last = noun.head.rpartition(" ")[2]
    after = found[3] or ""
    # "How many legs does a dog have?" is not about the legs in the picture.
    measured = last in MEASURES and (len(noun.words) == 1 or last in UNASKED)
    if measured or re.match(r"<[dpm]|(?:in|per) <b|" + _NOT_SHOWN, after):
        return Reading("count", "opaque")
    first = after.split(" ")[0]
    if not _narrowing(after) or not noun.plural and singular(first) != first:
        # "How many cows turn to their left?" 3: at least three cows.
        return Reading("count", "several", noun) if noun.plural else Reading("count", "opaque")
    return Reading("count", "count", asked.narrow(noun, after) if after else noun)


def _query(found: re.Match[str], asked: _Question) -> Reading | None:
    noun = asked.noun(found[3])
    if found[4] and not re.fullmatch(_RELATIVE, found[4]):
        return None
    return Reading(
        "value", "query", asked.narrow(noun, found[4]) if found[4] else noun,
        attribute=found[1],
    )  # fmt: skip


def _query_of_bare(found: re.Match[str], asked: _Question) -> Reading | None:
    noun = asked.noun(found[3])
    # Whatever the verb is: the things that have the colour are there.
    return Reading("value", "query", noun, attribute=found[1])


def _check(found: re.Match[str], asked: _Question) -> Reading | None:
    noun, after, predicate = asked.noun(found[2]), found[3], found[4]
    if after:
        noun = asked.narrow(noun, after)
    nominal = re.fullmatch(r"<i(\d+)>", predicate)
    if nominal:
        return Reading("attribute", "check", noun, asked.noun(nominal[1]))
    if re.match(r"<", predicate):
        return None
    text = asked.plain(predicate)
    relation = re.search(r"<|ing\b", predicate) is not None
    family = "comparison" if re.search(r"\b(?:than|same|as)\b", predicate) else (
        "relation" if relation else "attribute")  # fmt: skip
    return Reading(family, "check", noun, predicate=text)


def _does(found: re.Match[str], asked: _Question) -> Reading | None:
    # A verb phrase cannot stand before or after a noun as it is: it has no narrower phrase.
    return Reading(
        "relation", "check", asked.noun(found[2]), predicate=asked.plain(found[3]), attribute="verb"
    )  # fmt: skip


def _of_indefinite(found: re.Match[str], asked: _Question) -> Reading | None:
    if found[3] and (found[3].startswith("<") or not _narrowing(found[3])):
        return None
    noun = asked.noun(found[2], found[3])
    # "Are people wearing hats?" no: perhaps some do.
    return Reading("existence", "exist", noun, closed=found[1] != "b")


def _is_a(found: re.Match[str], asked: _Question) -> Reading | None:
    return Reading("attribute", "is_a", other=asked.noun(found[1]))


def _what_is(found: re.Match[str], asked: _Question) -> Reading | None:
    return Reading("value", "is_a")


def _what_at(found: re.Match[str], asked: _Question) -> Reading | None:
    thing = Noun(("thing",))
    return Reading("relation", "query", asked.narrow(thing, found[1]), attribute="shape")


def _what_doing(found: re.Match[str], asked: _Question) -> Reading | None:
    noun = asked.noun(found[2], found[3])
    return Reading("relation", "what", noun, predicate=asked.plain(found[4]))


def _what_kind(found: re.Match[str], asked: _Question) -> Reading | None:
    return Reading("value", "kind", asked.noun(found[2]))


def _narrowing(after: str | None) -> bool:
    """Whether what follows a noun is understood: no other clause, no pronoun, no "and"."""
    return not after or not _CLAUSE.search(re.sub(r"\b(?:next|close) to\b", "", after))


def _presupposed(asked: _Question, reading: Reading) -> tuple[tuple[Noun, ...], tuple[Noun, ...]]:
    """The definite noun phrases of a question: those that "no" leaves standing, and the others."""
    strong, usual = [], []
    if re.match(r"(?:if|is (?:this|that|it|he|she|these|those|they) <d)", asked.frame):
        return (), ()
    wh = asked.frame.startswith(("what", "who", "where", "why", "when", "how"))
    for place, found in enumerate(_ANY_PHRASE.finditer(asked.frame)):
        noun = asked.nouns[int(found[2])]
        if found[1] not in DEFINITE:
            continue
        before = asked.frame[: found.start()].rstrip()
        anchored = before.endswith(ANCHORING)
        (strong if place == 0 and not wh or anchored else usual).append(noun)
    if reading.form == "kind" and reading.noun is not None or (
        reading.form == "query" and reading.noun is not None and reading.noun.determiner == "b"
    ):  # fmt: skip
        usual.append(reading.noun)
    return tuple(strong), tuple(usual)


_BEFORE_IS = frozenset(("what", "who", "where", "how", "it", "there", "he", "she", "that", "when"))
_PREFIX = re.compile(
    r"how (?:many|much|old|tall|long|high|far|big) |"
    r"what (?:color|shape|size|pattern) |what (?:kinds?|types?|sorts?) of |what |is there |"
)
# Verbs whose object is there wherever they are true, unlike that of "looking for a bus".
_MENTION = re.compile(r"\b(?:wearing|holding|riding|carrying|using|eating) <[ib](\d+)>")
_NOT_READ = re.compile(r"\b(?:or|not|no|never|besides|except|else|another|other|only|if)\b")
_NOT_SHOWN = r"(?:does|do|did|has|have|can|could|will|would|should|may|might|fit|that)\b"
_CLAUSE = re.compile(
    r"\b(?:and|he|she|it|they|you|we|that|who|which|where|when|because|than|as|to|for|so|what)\b"
)
_IS = r"(?:is|are|was|were)"
_AFTER = r"(?: (.+))?"
_FORMS = [
    (re.compile(form), build)
    for form, build in (
        (rf"is there (more|fewer|as many) {_NOUN} (?:than|as) {_NOUN}", _compare),
        (rf"is there (?:more than) <(c)(\d+)>{_AFTER}", _more_than),
        (rf"is there (?:many|several|multiple) <(b)(\d+)>{_AFTER}", _many),
        (rf"is there {_NOUN}{_AFTER}", _exist),
        (rf"how many <(b)(\d+)>(?: {_IS})?(?: there)?{_AFTER}", _count),
        (rf"what (color|shape|size|pattern) {_IS} {_NOUN}{_AFTER}", _query),
        (rf"what (color|shape|size|pattern) {_NOUN} .+", _query_of_bare),
        (rf"what (?:{_IS}|lie|lies|do you see) ({_PREPOSITION} <[dpm]\d+>)", _what_at),
        (rf"what (?:kinds?|types?|sorts?) of <(b)(\d+)>.*", _what_kind),
        (rf"what <(b)(\d+)> .+", _what_kind),
        (rf"what {_IS} <([dpm])(\d+)>(?: ({_RELATIVE}))? (\w+ing(?: on| in| at| with)?)", _what_doing),
        (rf"{_IS} <([dpm])(\d+)>(?: ({_RELATIVE}))? (.+)", _check),
        (rf"{_IS} <([iqb])(\d+)>{_AFTER}", _of_indefinite),
        (rf"{_IS} (?:this|that|these|those|it|they) <[ib](\d+)>", _is_a),
        (rf"what {_IS} (?:this|that|these|those)", _what_is),
        (rf"(?:does|do|did|has|have|can|could|will) <([dpm])(\d+)> (.+)", _does),
    )
]  # fmt: skip
