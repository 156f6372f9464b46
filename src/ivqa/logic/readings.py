"""What a question of VQA asks: its kind, its noun phrases, and the things that it presupposes."""

import re
from dataclasses import replace
from functools import lru_cache

from ivqa.logic.forms import NOT_READ, PHRASE, Question, Reading, form_of
from ivqa.logic.phrases import DEFINITE, Noun, normal, phrases
from ivqa.logic.wordings import PICTURE, rewritten, words_of
from ivqa.logic.words import (
    ANCHORING,
    NARROWER_SCENE_WORD,
    NEAR_SCENE_WORD,
    SCENE_ATTRIBUTE,
    SCENE_WORD,
)


@lru_cache(maxsize=1 << 16)
def read(question: str) -> Reading:
    """Reads any text as a question; of the family "opaque" where it is not understood.

    Example:
        >>> reading = read("How many men are wearing hats?")
        >>> reading.family, reading.noun.head, sorted(reading.noun.modifiers)
        ('count', 'man', ['wearing hat'])
    """
    text = rewritten(question)
    scene = _scene(text)
    if scene is not None:
        return replace(scene, text=normal(text), fixed=True)
    prefix = _PREFIX.match(text)
    start = prefix.end() if prefix else 0
    frame, nouns, written = phrases(text[start:].split(), bare=start > 0)
    visible = re.search(rf" {PICTURE}$", " ".join(words_of(question))) is not None
    if not start and not visible and _BARE_CHECK.fullmatch(frame) and len(nouns[0].words) > 1:
        # "Is the dog surfing": the last word is said of the others.
        *others, last = nouns[0].words
        if others[-1] not in nouns[0].modifiers:
            nouns[0] = replace(nouns[0], words=tuple(others))
            frame = f"{frame} {last}"
    asked = Question(text[:start] + frame, nouns, written, visible)
    reading = form_of(asked)
    presupposed, usual = _presupposed(asked, reading)
    unreal = NOT_READ.search(frame) or _MODAL.match(text)
    mentioned = [] if unreal else _MENTION.findall(frame)
    return replace(
        reading,
        text=normal(text),
        presupposed=presupposed,
        usual=usual,
        mentioned=tuple(nouns[int(number)] for number in mentioned),
        fixed=not _PRONOUN.search(text) and not any(one.determiner in DEFINITE for one in nouns),
    )


def scene_value(word: str) -> tuple[str, bool]:
    """The value of the scene that a word names, or the word itself.

    It comes with whether a scene that the word describes has the value for certain.

    Example:
        >>> scene_value("snowing"), scene_value("sunny")
        (('snowy', True), ('clear', False))
    """
    if word in NEAR_SCENE_WORD:
        return NEAR_SCENE_WORD[word], False
    return NARROWER_SCENE_WORD.get(word, SCENE_WORD.get(word, word)), True


def _scene(text: str) -> Reading | None:
    """A question about the time, the weather or the place of the picture."""
    for form, attribute in _SCENE_FORMS:
        if form.fullmatch(text):
            return Reading("scene", "scene", attribute=attribute)
    found = _SCENE_CHECK.fullmatch(text)
    if found is None:
        return None
    name = SCENE_ATTRIBUTE.get(scene_value(found[1])[0])
    # "Is this picture clear?" is not about the weather.
    if name is None or (name == "weather" and "picture" in text):
        return None
    return Reading("scene", "scene", attribute=name, predicate=found[1])


def _presupposed(asked: Question, reading: Reading) -> tuple[tuple[Noun, ...], tuple[Noun, ...]]:
    """The definite noun phrases of a question: those that "no" leaves standing, and the others.

    The first one stands where the question is a "yes" or "no" question about it, and so does one
    after a preposition that needs it ("left of the heart"). "Is the cat in the water?" no leaves
    open whether there is water.
    """
    if _SAID_OF_THIS.match(asked.frame):
        return (), ()
    strong: list[Noun] = []
    usual: list[Noun] = []
    for place, found in enumerate(PHRASE.finditer(asked.frame)):
        before = asked.frame[: found.start()].rstrip()
        if re.search(r"\bor\b", before):
            # "Is the man on the bench or the chair?" does not say that there is a chair.
            return tuple(strong), ()
        if found[1] in DEFINITE:
            first = place == 0 and not before.startswith(_OPEN)
            stands = first or before.endswith(ANCHORING)
            (strong if stands else usual).append(asked.nouns[int(found[2])])
    bare = reading.noun is not None and reading.noun.determiner == "b"
    if reading.noun is not None and bare and reading.form in ("kind", "query"):
        usual.append(reading.noun)
    return tuple(strong), tuple(usual)


_PREFIX = re.compile(
    r"how (?:many|much|old|tall|long|high|far|big) |"
    r"what (?:color|shape|size|pattern) |what (?:kinds?|types?|sorts?) of |what |is there |"
)
_OPEN = ("what", "who", "where", "why", "when", "how")
# "Is this the kitchen?", "is the man there?" and "can the man be seen?" presuppose nothing.
_SAID_OF_THIS = re.compile(
    r"if|(?:is|are) (?:this|that|it|he|she|these|those|they) <d|can <.0> be$|"
    r"(?:is|are) <.0>(?: (?:there|real|fake|gone|missing|present|still there))?$"
)
_BARE_CHECK = re.compile("(?:is|are|was|were) <[dp]0>")
_MODAL = re.compile("would|should|could|can|will|might|may|must")
# Verbs whose object is there wherever they are true, unlike that of "looking for a bus".
_MENTION = re.compile(r"\b(?:wearing|holding|riding|carrying|using|eating) <[ib](\d+)>")
_PRONOUN = re.compile(
    r"\b(?:he|she|it|they|him|his|her|its|their|them|this|that|these|those|you|we)\b"
)
_SCENE_FORMS = [
    (re.compile(pattern), attribute)
    for pattern, attribute in (
        (r"where (?:is|was) (?:this|this picture taken|the picture taken|this taken)", "place"),
        (r"what (?:kind of )?place (?:is this|does the picture show)", "place"),
        (
            r"what time of day (?:is it|is this|was this picture taken|does the picture show)",
            "time",
        ),
        (r"when was this picture taken", "time"),
        (r"(?:what is|how is) the weather(?: like)?(?: today)?", "weather"),
        (r"what (?:kind of )?weather (?:is it|is this|does the picture show)", "weather"),
    )
]
_SCENE_CHECK = re.compile(
    r"(?:are we|does this look like it is|does this happen|(?:is|was) (?:this picture taken|"
    r"the picture taken|it a picture taken|the weather|this picture|this|it)) "
    r"(?:a )?(?:(?:in|at|on|during) (?:the |a )?|the )?(.+?)(?: taken| out)?"
)
