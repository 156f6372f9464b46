"""Noun phrases of English questions: finding them, comparing them, and writing them.

Words get their part of speech from the tagger that TextBlob bundles; its lexicon comes with it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations

from textblob.en import tag

from ivqa.logic.words import (
    ALWAYS_PLURAL,
    ATTRIBUTE_OF,
    DEPICTING,
    HYPERNYM,
    MASS,
    NUMBERS,
    ORDERING,
    PLAIN_ADJECTIVES,
    SAME_MODIFIER,
    SAME_PREPOSITION,
    SHAPES,
    UNASKED,
    UNCHANGED,
    UNREAL,
    plural,
    singular,
)

Key = tuple[str, frozenset[str]]
"""The meaning of a noun phrase: its head in the singular, and everything that narrows it."""

# The class of a determiner: the, a, any, no, demonstrative, possessive pronoun, number.
_DETERMINERS = {
    **dict.fromkeys(("the", "both", "all", "each", "every"), "d"),
    **dict.fromkeys(("a", "an"), "i"),
    **dict.fromkeys(("any", "some"), "q"),
    **dict.fromkeys(("this", "that", "these", "those"), "m"),
    **dict.fromkeys(("his", "her", "its", "their", "your", "my", "our"), "p"),
    **dict.fromkeys(NUMBERS, "c"),
    "no": "n",
}
DEFINITE = "dpm"
"""The classes of determiners whose phrases say that the thing is there."""
# Words that the tagger often takes for a noun or an adjective where they are none.
_NEVER_NOUN = frozenset(
    "is are was were be been being do does did has have had can could will would should not there "  # noqa: SIM905
    "it he she they we you i him them us me who what where why when how and or but if than as of "
    "in on at to from with by for near behind under over above below beside between next more "
    "less fewer very too so just still currently here holding wearing eating doing sitting "
    "standing riding walking playing using looking going having visible like likely ready able "
    "about up down off out away together alone across through around against along wear hold eat "
    "ride play look looks appear appears seem seems lie lies shown pictured many much most also "
    "really actually probably get take make made use used see need want same trying waiting "
    "talking running taking carrying getting facing flying smiling laying lying well only even "
    "ever yet already both all each every any some no another other such open closed".split()
)


@dataclass(frozen=True)
class Noun:
    """A noun phrase without its determiner.

    Args:
        words: Its words as they are written, adjectives first, the head last.
        after: What follows the head, such as "left of the star"; "" if nothing.
        modifiers: All that narrows the head, in a normal form.
        determiner: Class of its determiner, see `_DETERMINERS`; "b" for none.
        lead: What makes it definite as it is written: "the", "his", "the man's".
    """

    words: tuple[str, ...]
    after: str = ""
    modifiers: frozenset[str] = frozenset()
    determiner: str = "b"
    lead: str = "the"

    @cached_property
    def head(self) -> str:
        """The head in the singular; a compound, such as "stop sign", is one head."""
        first = len(self.words) - 1
        while first and self.words[first - 1] not in PLAIN_ADJECTIVES | ORDERING and (
            self.words[first - 1] not in self.modifiers
        ):  # fmt: skip
            first -= 1
        return " ".join((*self.words[first:-1], singular(self.words[-1])))

    @cached_property
    def key(self) -> Key:
        """What it denotes; wordings of one meaning have one key."""
        return ("thing" if self.head == "object" else self.head), self.modifiers

    @property
    def plural(self) -> bool:
        """Whether the head is written in the plural."""
        last = self.words[-1]
        return last in ALWAYS_PLURAL or (last not in UNCHANGED and singular(last) != last)

    @property
    def mass(self) -> bool:
        """Whether the head has no plural and takes no article."""
        return self.words[-1] in MASS and not self.plural

    @property
    def asked(self) -> bool:
        """Whether a model can be asked if there is one: not for "the left" or "the weather"."""
        last = self.head.rpartition(" ")[2]
        if last in ("thing", "object"):
            return bool(self.modifiers & ATTRIBUTE_OF.keys())
        known = last not in UNASKED or self.after.startswith("of ")
        return known and last.isalpha() and len(last) > 1

    def narrowed(self, text: str, normal: str) -> "Noun":
        """The same things as far as a predicate holds of them.

        `text` is the predicate as it is written after a noun, or one adjective; `normal` its normal
        form.
        """
        modifiers = self.modifiers | {SAME_MODIFIER.get(normal, normal)}
        if is_adjective(text) and not text.endswith("ing"):
            return replace(self, words=(text, *self.words), modifiers=modifiers)
        # "a red star with dots", "men sitting"
        after = " ".join(filter(None, (self.after, text)))
        return replace(self, after=after, modifiers=modifiers)

    def broader(self) -> tuple["Noun", bool]:
        """The head alone, and whether it denotes the things for certain: a toy car need not be."""
        head = Noun((*self.head.split()[:-1], self.words[-1]), determiner=self.determiner)
        return head, all(map(_plain, self.modifiers))

    def written(self, number: str) -> str:
        """Writes the phrase.

        `number` is "a" for the singular with its article, "s" for the plural, "the" for the
        definite phrase in its own number.
        """
        words = list(self.words)
        if number == "s" and not self.mass and not self.plural:
            words[-1] = plural(words[-1])
        elif number == "a" and self.plural and words[-1] not in ALWAYS_PLURAL:
            words[-1] = singular(words[-1])
        text = " ".join(filter(None, (*words, self.after)))
        if number == "the":
            return f"{self.lead} {text}"
        if number == "s":
            return text
        vowel = text[0] in "aeiou" and not text.startswith(("uni", "use", "one", "eu"))
        return f"an {text}" if vowel else f"a {text}"


def wider(key: Key) -> Iterator[tuple[Key, bool]]:
    """All phrases that denote everything that a phrase denotes, itself first.

    Each comes with whether it is wider in every picture.
    """
    head, modifiers = key
    # A star is a thing. But a toy car need not be a car, nor a stuffed dog an animal.
    heads = [(head, True)] + [("thing", True)] * (head in SHAPES)
    heads += [(one, False) for one in generalisations(head)]
    # Longer phrases than people write are compared as a whole only.
    kept = sorted(modifiers) if len(modifiers) <= 5 else ()
    for general, certain in heads:
        yield (general, modifiers), certain
        for size in range(len(kept)):
            for chosen in combinations(kept, size):
                # Which star is leftmost depends on all stars: "the leftmost red star" is a red
                # star, but need not be the leftmost star.
                if any(_orders(word) for word in chosen):
                    continue
                sure = all(_plain(word) for word in kept if word not in chosen)
                yield (general, frozenset(chosen)), certain and sure


def generalisations(head: str) -> list[str]:
    """More general nouns, which need not be right.

    Example:
        >>> generalisations("baby elephant"), generalisations("dog")
        (['elephant', 'animal'], ['animal'])
    """
    last = head.rpartition(" ")[2]
    return [one for one in (last, HYPERNYM.get(last, "")) if one not in ("", head)]


def _orders(modifier: str) -> bool:
    return modifier in ORDERING or modifier.endswith("est")


def _plain(modifier: str) -> bool:
    words = modifier.split()
    if not UNREAL.isdisjoint(words):
        return False
    if len(words) > 1:
        return words[0] not in ("on", "in", "of") or DEPICTING.isdisjoint(words)
    return modifier in PLAIN_ADJECTIVES or modifier.endswith(("ing", "ed")) or _orders(modifier)


def normal(text: str) -> str:
    """The normal form of a phrase: no articles, nouns in the singular, one of two prepositions.

    Example:
        >>> normal("wearing the hats")
        'wearing hat'
    """
    words = (SAME_PREPOSITION.get(word, word) for word in text.split())
    return " ".join(singular(word) for word in words if word not in ("a", "an", "the", "any"))


@cache
def _code(word: str, kind: str) -> str:
    """One letter for a word.

    D, A, C: a determiner, article or number; N, P: a noun in the singular or plural; J: an
    adjective; O: "left" and the like; G: a participle; V, Z: another verb, with an s; T: the noun
    of a pattern; w: "with"; ': the mark of a possessive; x: any other.
    """
    if word in _DETERMINERS or word.isdigit():
        return {"c": "C", "i": "A", "q": "A", "n": "A"}.get(_DETERMINERS.get(word, "c"), "D")
    if (word in ATTRIBUTE_OF and word not in SHAPES) or word in PLAIN_ADJECTIVES:
        return "J"
    if word in SHAPES:
        return "N"
    if word in ("left", "right", "top", "bottom", "front", "back"):
        return "O"
    if word in ("dots", "stripes", "checks", "lines"):
        return "T"
    if word == "with":
        return "w"
    if word in _NEVER_NOUN:
        return "G" if word.endswith("ing") else "x"
    if kind in ("VBG", "VBN") and not word.endswith(("thing", "ling")):
        return "G"
    if kind.startswith("JJ") or word in ORDERING:
        return "J"
    if kind.startswith("NN"):
        return "P" if word not in UNCHANGED and singular(word) != word else "N"
    if word in SHAPES or singular(word) in SHAPES:
        return "P"
    if word == "'s":
        return "'"
    if kind == "VBZ" and word.endswith("s"):
        return "Z"
    return "V" if kind in ("VB", "VBP", "VBD") else "x"


# Determiner, adjectives (a participle only behind a determiner or an adjective), nouns. A plural
# ends the phrase: what follows it is a verb more often than the second half of a compound.
# A verb between a determiner and a noun is none: "the stop sign".
_NARROWING = r"(?:(?<=[ADC])O|(?<=[ADCJ])[GV](?=[GJNPT])|J)*"
_PHRASE = re.compile(
    rf"(?:A|D?C?)(?:{_NARROWING}N*[NPT]'O?)?{_NARROWING}(?:N*[PT]|N+|(?<=[ADCJ])Z|(?<=[AD])V)(?:wT)?"
)


_BASE_VERB = frozenset(
    ("do", "does", "did", "can", "could", "will", "would", "should", "may", "might", "must", "to")
)


@cache
def is_adjective(word: str) -> bool:
    """Whether a text is one word that says how a thing is: an adjective or a participle."""
    return " " not in word and _code(word, tag(word, tokenize=False)[0][1]) in "JG"


def phrases(words: list[str], *, bare: bool = False) -> tuple[str, list[Noun], list[str]]:
    """Finds the noun phrases of a question.

    Args:
        words: Its words in lower case; "'s" of a possessive is a word of its own.
        bare: Whether they start with a noun phrase, as behind "how many".

    Returns:
        The question with "<d0>", "<i1>" and so on in the place of its noun phrases (the class of
        the determiner and the number of the phrase), the phrases, and how they are written.

    Example:
        >>> phrases("is the old car left of a bus".split())[0]
        'is <d0> left of <i1>'
    """
    tags = [kind for _, kind in tag(" ".join(words), tokenize=False)] if words else []
    if len(tags) != len(words):
        tags = [tag(word, tokenize=False)[0][1] for word in words]
    coded = "".join(_code(word, kind) for word, kind in zip(words, tags, strict=True))
    if not _BASE_VERB.intersection(words):
        # "The bus stop", unlike "does the bus stop".
        coded = re.sub("(?<=N)V", "N", coded)
    if bare:
        # The tagger takes the "mirrors" of "how many mirrors" for a verb.
        coded = re.sub("^V(?=[NP])", "N", re.sub("^([JN]*)Z", r"\1P", coded))
    parts: list[str] = []
    nouns: list[Noun] = []
    written: list[str] = []
    at = 0
    for found in _PHRASE.finditer(coded):
        noun = _noun(words[found.start() : found.end()], coded[found.start() : found.end()])
        parts += [*words[at : found.start()], f"<{noun.determiner}{len(nouns)}>"]
        nouns.append(noun)
        written.append(" ".join(words[found.start() : found.end()]))
        at = found.end()
    return " ".join([*parts, *words[at:]]), nouns, written


def _noun(words: list[str], coded: str) -> Noun:
    kind = "b"
    written, lead = list(words), "the"
    start = len(coded) - len(coded.lstrip("DAC"))
    if start:
        kind = _DETERMINERS.get(words[0], "c")
        lead = words[0] if kind in "pm" else "the"
        words, coded = words[start:], coded[start:]
    modifiers, after = set(), ""
    if coded.endswith("wT"):
        after = " ".join(words[-2:])
        modifiers.add(SAME_MODIFIER[normal(after)])
        words, coded = words[:-2], coded[:-2]
    owned = coded.rfind("'")
    if owned >= 0:
        # "the man's hat" is a hat, and as definite as "his hat".
        modifiers.add("of " + normal(" ".join(words[:owned])))
        lead = " ".join(written[: start + owned]) + "'s"
        lead = lead if kind in DEFINITE else f"the {lead}"
        words, coded = words[owned + 1 :], coded[owned + 1 :]
        kind = "p"
    for word, letter in zip(words[:-1], coded[:-1], strict=True):
        if letter in "JGO" or word in PLAIN_ADJECTIVES:
            modifiers.add(SAME_MODIFIER.get(word, word))
    return Noun(tuple(words), after, modifiers=frozenset(modifiers), determiner=kind, lead=lead)
