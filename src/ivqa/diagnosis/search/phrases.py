"""The things that the answers of a model name."""

from functools import lru_cache

from textblob.en import tag

from ivqa.logic.phrases import Noun
from ivqa.logic.words import UNASKED, singular
from ivqa.text.tokens import tokenise

_SPORTS = "tennis baseball soccer football basketball hockey golf surfing skiing skateboarding"
_COLORS = "black white red green blue yellow brown gray grey pink purple plain"
# Nouns that name no thing that could be in a picture, beside those that logic does not ask for.
_NO_THING = UNASKED | frozenset(
    f"none unknown photo image photograph yes no lot scene close-up beach {_SPORTS} {_COLORS} "
    "snowboarding summer winter spring autumn indoors outdoors nature".split()
)
_SHORTEST = 3  # letters; shorter words are mostly read wrongly
_MOST_WORDS = 3  # of a compound, as in "fire truck ladder"; a model that babbles repeats words


def noun_phrase(noun: str, adjectives: tuple[str, ...] = ()) -> Noun:
    """A noun phrase: adjectives in the order of English, and a head with the nouns before it."""
    return Noun((*adjectives, *noun.split()))


@lru_cache(maxsize=1 << 14)
def things_in(answer: str) -> tuple[str, ...]:
    """Finds the things that an answer or a caption names.

    Returns:
        Their nouns in the singular, each once; adjectives and numbers are left out.

    Example:
        >>> things_in("Two men riding brown horses")
        ('man', 'horse')
        >>> things_in("nothing"), things_in("cat cat cat cat")
        ((), ())
    """
    words = tokenise(answer)
    tagged = tag(" ".join(words)) if words else []
    kinds = [kind for _, kind in tagged]
    # An answer is no order: "cross" and "stop sign" are things.
    if kinds in (["VB"], ["VBP"], ["NNP"], ["VB", "NN"]):
        tagged = [(word, "NN") for word, _ in tagged]
    found: list[str] = []
    run: list[str] = []
    for word, kind in [*tagged, ("", "")]:
        if kind.startswith("NN") and word.isalpha():
            run.append(word)
        elif run:
            found.append(" ".join((*run[:-1], singular(run[-1]))))
            run = []
    return tuple(noun for noun in dict.fromkeys(found) if _is_thing(noun.split()))


def _is_thing(words: list[str]) -> bool:
    is_compound = len(words) <= _MOST_WORDS and len(set(words)) == len(words)
    return is_compound and words[-1] not in _NO_THING and len(words[-1]) >= _SHORTEST
