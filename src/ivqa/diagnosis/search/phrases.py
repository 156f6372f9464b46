"""Noun phrases: read from the answers of a model, and written into questions."""

import re
from dataclasses import dataclass
from functools import lru_cache

from textblob.en import tag
from textblob.en.inflect import pluralize, singularize

from ivqa.text.tokens import tokenise

_MASS = frozenset(
    "grass water snow sand food sky air smoke fire ice rain milk bread rice cheese meat fruit hair "  # noqa: SIM905
    "furniture luggage traffic clothing art equipment mud dirt coffee tea wine beer juice sugar "
    "cake pasta pizza soup salad wood metal glass plastic paper ground nature scenery weather".split()
)
# "glass" and "paper" are also things; the reading without a number is always legal.
_PAIRS = frozenset("glasses sunglasses pants jeans shorts scissors trousers goggles headphones".split())  # noqa: SIM905
# Nouns that name no thing that could be in a picture.
_NO_THING = frozenset(
    "nothing none unknown picture photo image photograph yes no thing things object objects "  # noqa: SIM905
    "something anything everything one color colour kind type number background foreground front "
    "left right top bottom middle center side day night answer question scene view lot "
    "group pair part close-up tennis baseball soccer football basketball hockey golf surfing skiing "
    "skateboarding snowboarding sport summer winter spring autumn morning evening afternoon noon "
    "sunset sunrise black white red green blue yellow brown gray grey pink purple plain".split()
)
_VOWEL_SOUND = re.compile(r"(?!uni|use|usu|euro|one\b|ufo|ute)(?:[aeiou]|hou?r\b|honest|heir)")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase without article, such as "red car".

    Args:
        noun: The head with the nouns before it, in the singular if it has one: "fire hydrant".
        adjectives: In the order of English: "large", "red".
    """

    noun: str
    adjectives: tuple[str, ...] = ()

    @property
    def is_plural(self) -> bool:
        """Whether the noun has a plural alone, such as "glasses"."""
        return self.noun.rpartition(" ")[2] in _PAIRS

    @property
    def is_counted(self) -> bool:
        """Whether the noun has a singular and a plural, so that "how many" makes sense."""
        return not self.is_plural and self.noun.rpartition(" ")[2] not in _MASS

    def bare(self) -> str:
        """Writes the phrase without article: "red car"."""
        return " ".join((*self.adjectives, self.noun))

    def indefinite(self) -> str:
        """Writes the phrase as in "is there ...": "a red car", "an umbrella", "snow"."""
        if not self.is_counted:
            return self.bare()
        article = "an" if _VOWEL_SOUND.match(self.bare()) else "a"
        return f"{article} {self.bare()}"

    def definite(self) -> str:
        """Writes the phrase with the definite article: "the red car"."""
        return f"the {self.bare()}"

    def plural(self) -> str:
        """Writes the plural: "red cars"."""
        first, _, last = self.noun.rpartition(" ")
        noun = " ".join(filter(None, (first, str(pluralize(last)))))
        return " ".join((*self.adjectives, noun))


@lru_cache(maxsize=1 << 14)
def things_in(answer: str) -> tuple[str, ...]:
    """Finds the things that an answer names.

    Args:
        answer: An answer or a caption.

    Returns:
        Their nouns in the singular, each once; adjectives and numbers are left out.

    Example:
        >>> things_in("Two men riding brown horses")
        ('man', 'horse')
        >>> things_in("nothing")
        ()
    """
    words = tokenise(answer)
    tagged = tag(" ".join(words)) if words else []
    if len(tagged) == 1 and tagged[0][1] in ("VB", "VBP", "NNP"):  # "cross": an answer is no order
        tagged = [(tagged[0][0], "NN")]
    if len(tagged) > 1 and [kind for _, kind in tagged] == ["VB", "NN"]:  # "stop sign"
        tagged = [(word, "NN") for word, _ in tagged]
    found: list[str] = []
    run: list[tuple[str, str]] = []
    for word, kind in [*tagged, ("", "")]:
        if kind.startswith("NN") and word.isalpha():
            run.append((word, kind))
        elif run:
            found.append(_noun(run))
            run = []
    things = [noun for noun in found if noun.rpartition(" ")[2] not in _NO_THING and len(noun) > 2]
    return tuple(dict.fromkeys(things))


def _noun(run: list[tuple[str, str]]) -> str:
    """A noun of one or more words in the singular."""
    *before, (last, kind) = run
    if kind == "NNS" and last not in _PAIRS:
        last = str(singularize(last))
    return " ".join([*(word for word, _ in before), last])
