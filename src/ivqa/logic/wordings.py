"""Wordings: many ways to ask one question become one, before it is read."""

import re

from ivqa.logic.words import SAME_WORD
from ivqa.text.tokens import tokenise

PICTURE = (
    r"(?:(?:in|on|of) (?:the|this|that|these) (?:picture|pictures)|in view|in sight|here|shown|"
    r"pictured|visible|depicted|seen|displayed)"
)
_SEEN = r"(?:(?:do|can) you (?:see|count|find|spot)|can be seen)"
_ARTICLE = r"(an?|any|no|some|more|fewer|as many)"
_THE = r"((?:the|this|that|these|those) .+)"
_WORDINGS = [
    (re.compile(pattern), new)
    for pattern, new in (
        (r"^(?:in the picture|okay|so|and|hey) ", ""),
        (rf"^how many (.+?) {_SEEN}\b", r"how many \1 are there"),
        # "In this picture", twice, for "are shown in this picture".
        (rf" {PICTURE}$", ""),
        (rf" {PICTURE}$", ""),
        (r"^what(?: is the)? number of (.+?)(?: are there)?$", r"how many \1 are there"),
        (rf"^(?:do|can|could) you (?:see|find|notice|spot) {_ARTICLE}\b", r"is there \1"),
        (rf"^does (?:the|this) picture (?:show|have|contain) {_ARTICLE}\b", r"is there \1"),
        (r"^(?:are|were|was) there\b", "is there"),
        (r"^is there (?:a lot|lots|plenty|a bunch|a number) of\b", "is there many"),
        (rf"^how many (.+?) {PICTURE} (?:is|are) ", r"how many \1 are "),
        (r"^(.+) is what color$", r"what color is \1"),
        (r"^(.+) has what shape$", r"what shape is \1"),
        (r"^what kind of (shape|color|pattern)\b", r"what \1"),
        (r"^what is the (color|shape|size|pattern) (?:of|on) ", r"what \1 is "),
        (r"^what pattern is on ", "what pattern is "),
        (r"^what colors (?=is|are|do)", "what color "),
        (r"^what color (?:are|was|were) ", "what color is "),
        (r"^what (color|shape|size|pattern) (?:do|does) (.+) have$", r"what \1 is \2"),
        (r"^how (?:big|large) is ", "what size is "),
        (r"^what (?:lies|lie|do you see) ", "what is "),
        (r"^is the (?:color|pattern|size) of (.+) (\S+)$", r"is \1 \2"),
        (r"^is the position of ", "is "),
        (r"^is the shape of (.+) (an? \S+)$", r"is \1 \2"),
        (r"^is (.+) in (?:color|size)$", r"is \1"),
        (rf"^(?:does|do) {_THE} (?:look|appear|seem) (?:like )?(.+)$", r"is \1 \2"),
        (r"^are (.+) more numerous than (.+)$", r"is there more \1 than \2"),
        (
            r"^is the number of (.+) the same as the number of (.+)$",
            r"is there as many \1 as \2",
        ),
        (r"\b(?:to|on) the (left|right) (?:side )?of\b", r"\1 of"),
        (r"\b(?:all|both|each|most|some|any|none) of (the|these|those|this)\b", r"\1"),
        (r"\bblack and white\b", "black-and-white"),
        (r"\bhot dog", "hotdog"),
        (r"\bthat (?:is|are) (?=(?:left|right|above|below|behind|under|over|near|next) )", ""),
    )
]
_BEFORE_IS = frozenset(("what", "who", "where", "how", "it", "there", "he", "she", "that", "when"))


def words_of(question: str) -> list[str]:
    """The words of a question in lower case, contractions written out, one for all its synonyms.

    Example:
        >>> words_of("What's the guy's bike?")
        ['what', 'is', 'the', 'man', "'s", 'bicycle']
    """
    words: list[str] = []
    for word in tokenise(question):
        stem, mark, ending = word.rpartition("'")
        if word.endswith("n't") and len(word) > 3:
            words += [{"ca": "can", "wo": "will"}.get(word[:-3], word[:-3]), "not"]
        elif mark and ending in ("s", "") and stem:
            words += [*_same(stem), "is" if stem in _BEFORE_IS else "'s"]
        elif word.endswith("s'"):
            words += [word[:-1], "'s"]
        else:
            words += _same(word)
    return words


def _same(word: str) -> list[str]:
    return SAME_WORD.get(word, word).split()


def rewritten(question: str) -> str:
    """A question in the wording that `ivqa.logic.readings` reads.

    Example:
        >>> rewritten("Can you see any dogs in this photo?")
        'is there any dogs'
    """
    text = " ".join(words_of(question))
    for pattern, new in _WORDINGS:
        text = pattern.sub(new, text)
    return text
