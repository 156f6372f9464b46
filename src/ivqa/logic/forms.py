"""Forms of questions: patterns over questions with numbered noun phrases, and what they mean."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ivqa.logic.phrases import DEFINITE, Noun, is_adjective, normal
from ivqa.logic.words import MEASURES, NUMBERS, PREPOSITIONS, UNASKED, singular

FAMILIES = tuple("count existence attribute value relation comparison scene opaque".split())  # noqa: SIM905
"""The kinds of questions, by what an answer says: how many there are; whether there is one; whether
a thing has a property; which value of an attribute it has; how things stand to each other; which
are more; the time, weather or place of the picture; anything else."""


@dataclass(frozen=True)
class Reading:
    """What a question asks.

    Args:
        family: One of `FAMILIES`.
        form: "exist", "count", "several" (a count of some of the things), "check" ("is the car
            red"), "is_a", "query" (of an attribute), "what" ("what is he holding"), "kind", "more",
            "fewer", "equal", "scene" or "opaque".
        noun: The things that it is about.
        other: The second things of a comparison, or the noun that a "check" or "is_a" predicates.
        attribute: The attribute of a "query" or a "scene"; "verb" of a "check" with a verb phrase.
        predicate: What a "check" or a "what" says of the things; the value of a "scene".
        least: Of "exist", the number of things that "yes" says there are, at least.
        closed: Of "exist", whether "no" says that there are fewer than `least`.
        denied: Of "exist", whether the question is "is there no ...".
        text: The question in its normal form: the same for wordings of one question.
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
    least: int = 1
    closed: bool = True
    denied: bool = False
    text: str = ""
    presupposed: tuple[Noun, ...] = ()
    usual: tuple[Noun, ...] = ()
    mentioned: tuple[Noun, ...] = ()
    fixed: bool = False


PHRASE = re.compile(r"<([a-z])(\d+)>")


@dataclass(frozen=True)
class Question:
    """A question with its noun phrases taken out, see `phrases`."""

    frame: str
    nouns: list[Noun]
    written: list[str]
    visible: bool = False
    """Whether it ended with "in the picture", "visible" and the like."""

    def noun(self, number: str, after: str | None = None) -> Noun:
        """A noun phrase, narrowed by the piece of the frame that follows it."""
        found = self.nouns[int(number)]
        if not after:
            return found
        text = self.plain(after)
        return found.narrowed(text, normal(text))

    def plain(self, piece: str) -> str:
        """A piece of the frame in words."""
        return PHRASE.sub(lambda found: self.written[int(found[2])], piece)

    def number(self, number: str) -> int | None:
        """The number that a noun phrase starts with."""
        first = self.written[int(number)].split()[0]
        return int(first) if first.isdigit() else NUMBERS.get(first)


def form_of(asked: Question) -> Reading:
    """Reads the family, form and parts of a question, without what it presupposes.

    "opaque" if no form fits.
    """
    if not NOT_READ.search(asked.frame):
        for form, build in _FORMS:
            found = form.fullmatch(asked.frame)
            reading = None if found is None else build(found, asked)
            if reading is not None:
                return reading
    return Reading("opaque", "opaque")


# Each function below reads one form, or returns None where only its beginning fits.


def _exist(found: re.Match[str], asked: Question) -> Reading | None:
    kind, number, after = found.groups()
    count = asked.number(number) if kind == "c" else 1
    if count is None or kind in DEFINITE or not _narrowing(after):
        return None
    # "Are there two cars?" no: perhaps three.
    noun, closed = asked.noun(number, after), kind != "c"
    return Reading("existence", "exist", noun, least=count, closed=closed, denied=kind == "n")


def _more_than(found: re.Match[str], asked: Question) -> Reading | None:
    count = asked.number(found[1])
    if count is None or not _narrowing(found[2]):
        return None
    return Reading("count", "exist", asked.noun(found[1], found[2]), least=count + 1)


def _many(found: re.Match[str], asked: Question) -> Reading | None:
    if not _narrowing(found[2]):
        return None
    noun = asked.noun(found[1], found[2])
    return Reading("existence", "exist", noun, least=2 if noun.plural else 1, closed=False)


def _indefinite(found: re.Match[str], asked: Question) -> Reading | None:
    kind, number, after = found.groups()
    if after and (after.startswith("<") or not _narrowing(after)):
        return None
    # "Are people wearing hats?" no: perhaps some do.
    return Reading("existence", "exist", asked.noun(number, after), closed=kind != "b")


def _compare(found: re.Match[str], asked: Question) -> Reading | None:
    form = "equal" if found[1] == "as many" else found[1]
    return Reading("comparison", form, asked.noun(found[2]), asked.noun(found[3]))


def _count(found: re.Match[str], asked: Question) -> Reading | None:
    noun, after = asked.noun(found[1]), found[2] or ""
    last = noun.head.rpartition(" ")[2]
    measured = last in MEASURES and (len(noun.words) == 1 or last in UNASKED)
    # "How many legs does a dog have?" is not about the legs in the picture.
    if measured or re.match("<[dpm]|(?:in|per) <b", after) or _NOT_SHOWN.search(after):
        return Reading("count", "opaque")
    first = after.split(" ")[0]
    if not _narrowing(after) or (not noun.plural and singular(first) != first):
        # "How many cows turn to their left?" 3: at least three cows.
        return Reading("count", "several", noun) if noun.plural else Reading("count", "opaque")
    return Reading("count", "count", asked.noun(found[1], after))


def _query(found: re.Match[str], asked: Question) -> Reading | None:
    if found[3] and not re.fullmatch(_RELATIVE, found[3]):
        return None
    return Reading("value", "query", asked.noun(found[2], found[3]), attribute=found[1])


def _query_of_bare(found: re.Match[str], asked: Question) -> Reading | None:
    # Whatever the verb is, the things that have the colour are there.
    return Reading("value", "query", asked.noun(found[2]), attribute=found[1])


def _what_at(found: re.Match[str], asked: Question) -> Reading | None:
    text = asked.plain(found[1])
    thing = Noun(("thing",)).narrowed(text, normal(text))
    return Reading("relation", "query", thing, attribute="shape")


def _check(found: re.Match[str], asked: Question) -> Reading | None:
    noun, predicate = asked.noun(found[1], found[2]), found[3]
    nominal = re.fullmatch(r"<i(\d+)>", predicate)
    if nominal:
        return Reading("attribute", "check", noun, asked.noun(nominal[1]))
    if predicate.startswith("<"):
        return None
    family = "relation" if re.search(r"<|ing\b", predicate) else "attribute"
    if re.search(r"\b(?:than|same|as)\b", predicate):
        family = "comparison"
    return Reading(family, "check", noun, predicate=asked.plain(predicate))


def _does(found: re.Match[str], asked: Question) -> Reading | None:
    predicate = asked.plain(found[2])
    return Reading("relation", "check", asked.noun(found[1]), None, "verb", predicate)


def _visible(found: re.Match[str], asked: Question) -> Reading | None:
    noun = asked.noun(found[1])
    if asked.visible:
        # "Is the man in the picture?" no: perhaps another one is.
        return Reading("existence", "exist", noun, closed=False)
    # "Are these lions?" But "this pizza cut" may be a pizza that is cut.
    return Reading("attribute", "is_a", other=noun) if noun.plural else None


def _is_a(found: re.Match[str], asked: Question) -> Reading | None:
    return Reading("attribute", "is_a", other=asked.noun(found[1]))


def _what_is(_found: re.Match[str], _asked: Question) -> Reading | None:
    return Reading("value", "is_a")


def _what_doing(found: re.Match[str], asked: Question) -> Reading | None:
    noun, predicate = asked.noun(found[1], found[2]), asked.plain(found[3])
    return Reading("relation", "what", noun, predicate=predicate)


def _what_kind(found: re.Match[str], asked: Question) -> Reading | None:
    return Reading("value", "kind", asked.noun(found[1]))


def _narrowing(after: str | None) -> bool:
    """Whether what follows a noun is understood: no other clause, no pronoun, no "and"."""
    if not after:
        return True
    if " " not in after:
        return after.startswith("<") or is_adjective(after)
    return not _CLAUSE.search(re.sub(r"\b(?:next|close) to\b", "", after))


NOT_READ = re.compile(
    r"\b(?:or|not|no|nobody|never|without|besides|except|else|another|other|only|if)\b| 's\b"
)
"""Words with which a question is not understood: negations, alternatives, exceptions."""
_NOT_SHOWN = re.compile(r"\b(?:does|do|did|has|have|can|could|will|would|should|may|might|fit)\b")
_CLAUSE = re.compile(
    r"\b(?:and|he|she|it|they|you|we|that|who|which|where|when|because|than|as|to|for|so|what|is|"
    r"are|was|were)\b"
)
_PREPOSITION = "|".join(PREPOSITIONS)
_RELATIVE = rf"(?:{_PREPOSITION}) <[a-z]\d+>"
_IS = r"(?:is|are|was|were)"
_NAME = "(color|shape|size|pattern)"
_ANY, _THE, _BARE = r"<([a-z])(\d+)>", r"<[dpm](\d+)>", r"<b(\d+)>"
_AFTER = r"(?: (.+))?"
_Build = Callable[[re.Match[str], Question], Reading | None]
_FORMS: list[tuple[re.Pattern[str], _Build]] = [
    (re.compile(form), build)
    for form, build in (
        (r"is there (more|fewer|as many) <.(\d+)> (?:than|as) <.(\d+)>", _compare),
        (rf"is there more than <c(\d+)>{_AFTER}", _more_than),
        (rf"is there (?:many|several|multiple) {_BARE}{_AFTER}", _many),
        (rf"is there {_ANY}{_AFTER}", _exist),
        (rf"how many {_BARE}(?: {_IS})?(?: there)?{_AFTER}", _count),
        (rf"what {_NAME} {_IS} <.(\d+)>{_AFTER}", _query),
        (rf"what {_NAME} <.(\d+)> .+", _query_of_bare),
        (rf"what {_IS} ((?:{_PREPOSITION}) <[dpm]\d+>)", _what_at),
        (rf"what (?:kinds?|types?|sorts?) of {_BARE}.*", _what_kind),
        (rf"what {_BARE} .+", _what_kind),
        (rf"what {_IS} {_THE}(?: ({_RELATIVE}))? (\w+ing(?: on| in| at| with)?)", _what_doing),
        (rf"{_IS} {_THE}(?: ({_RELATIVE}))? (.+)", _check),
        (rf"{_IS} {_THE}", _visible),
        (rf"{_IS} <([iqb])(\d+)>{_AFTER}", _indefinite),
        (rf"{_IS} (?:this|that|these|those|it|they) <[ib](\d+)>", _is_a),
        (rf"what {_IS} (?:this|that|these|those)", _what_is),
        (rf"(?:does|do|did|has|have|can|could|will) {_THE} (.+)", _does),
    )
]
