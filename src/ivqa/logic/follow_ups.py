"""Questions whose answers show whether an answer can be right."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ivqa.logic.implications import is_there
from ivqa.logic.phrases import Noun
from ivqa.logic.statements import state
from ivqa.logic.words import ATTRIBUTE_OF, SAME_WORD, SHAPES
from ivqa.text.tokens import detokenise, tokenise

# Ways to ask for an attribute that are more usual than "what size is the star".
_ASK = {"pattern": "what pattern does {} have"}
_ASK_SCENE = {
    "weather": "what is the weather like",
    "place": "where was this picture taken",
    "time": "what time of day is it",
}
_EXISTENCE = ("", "do you see", "can you find")


def follow_ups(question: str, answer: str) -> list[str]:
    """Questions whose answers show whether an answer can be right.

    They ask whether the things are there that the answer needs, and let the model name them from
    what else it needs: "What shape is the red thing?" for a red star. A model that says yes to
    everything seldom names what is not there. Asked once more about the answers that name
    something, they make a round trip.

    Args:
        question: A question in plain English.
        answer: An answer to it.

    Returns:
        The questions, without the question itself.

    Example:
        >>> for asked in follow_ups("Is there a red star?", "yes"):
        ...     print(asked)
        Do you see a red star?
        Can you find a red star?
        Is there a star?
        What color is the star?
        Is there a red thing?
        What shape is the red thing?
    """
    return list(_follow_ups(question, answer))


# Models answer the same questions about many images.
@lru_cache(maxsize=1 << 16)
def _follow_ups(question: str, answer: str) -> tuple[str, ...]:
    texts = (detokenise(text.split()) for text in _texts(question, answer))
    own = tokenise(question)
    return tuple(dict.fromkeys(text for text in texts if tokenise(text) != own))


def _texts(question: str, answer: str) -> Iterator[str]:
    statement = state(question, answer)
    # What a "no" denies is named by a "yes".
    stated = statement if statement.truth is not False else state(question, "yes")
    for count in dict.fromkeys((*statement.counts, *stated.counts)):
        noun = count.noun
        if noun.key != count.key or not noun.asked:
            continue
        for start in _EXISTENCE if count.rule != "value" else _EXISTENCE[:1]:
            yield is_there(noun, start)
        yield from _naming(noun)
    if stated.scene is not None and stated.scene[0] in _ASK_SCENE:
        yield _ASK_SCENE[stated.scene[0]]


def _naming(noun: Noun) -> Iterator[str]:
    """Questions that are answered by a word of the phrase, or add one where it has but one."""
    wider = list(_without_one(noun))
    for one, attribute in wider:
        if one.asked:
            yield is_there(one)
            yield _ask(attribute, one)
    if not any(one.asked for one, _ in wider) and not noun.after:
        known = {ATTRIBUTE_OF[word] for word in noun.key[1] if word in ATTRIBUTE_OF}
        # "What shape is the thing?" is asked of a thing alone.
        shaped = noun.head in SHAPES
        thing = noun.head in ("thing", "object")
        asked = ["shape"] * thing + ["color"] + ["pattern"] * (thing or shaped)
        for attribute in [one for one in asked if one not in known][:2]:
            yield _ask(attribute, noun)


def _without_one(noun: Noun) -> Iterator[tuple[Noun, str]]:
    """The phrase without one of its values, and the attribute of that value."""
    for place, written in enumerate(noun.words[:-1]):
        word = SAME_WORD.get(written, written)
        if word in ATTRIBUTE_OF and word in noun.modifiers:
            rest = noun.words[:place] + noun.words[place + 1 :]
            yield replace(noun, words=rest, modifiers=noun.modifiers - {word}), ATTRIBUTE_OF[word]
    if noun.head in SHAPES and noun.modifiers:
        plural = "things" if noun.plural else "thing"
        yield replace(noun, words=(*noun.words[:-1], plural)), "shape"


def _ask(attribute: str, noun: Noun) -> str:
    """The question for an attribute of a thing."""
    usual = _ASK.get(attribute, f"what {attribute} {'are' if noun.plural else 'is'} {{}}")
    return usual.format(replace(noun, lead="the").written("the"))
