"""The answer normalisation of the official VQA evaluation [Antol et al. 2015; vqaEval.py].

Scores are comparable with published ones only if the same strings count as equal. The bugs of the
official code are therefore kept; they are marked "quirk".
"""

import re
from collections.abc import Mapping

_NUMBERS = "zero one two three four five six seven eight nine ten"
_DIGITS = {"none": "0"} | {word: str(value) for value, word in enumerate(_NUMBERS.split())}
_ARTICLES = frozenset({"a", "an", "the"})
# Marks that are deleted or replaced in this order; apostrophe and colon are kept.
_PUNCTUATION = (*';/[]"{}()=+\\_-', *"><@`,?!")
_NUMBER_COMMA = re.compile(r"\d,\d")
# Quirk: "(?!<=\d)" is a look-ahead for the text "<=\d"; a look-behind was intended. It excludes
# nothing, so a full stop after a digit is deleted too, unless a digit follows.
_FULL_STOP = re.compile(r"(?!<=\d)(\.)(?!\d)")
# Quirk: re.UNICODE (32) is passed where `sub` expects the maximum number of replacements.
_MOST_FULL_STOPS = 32

# The correct spellings. Each of them without one of its apostrophes is replaced by it.
_CONTRACTIONS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't
haven't he'd he'd've he's how'd how'll how's I'd've I'm I've isn't it'd it'd've it'll ma'am
mightn't mightn't've might've mustn't must've needn't not've o'clock oughtn't 'ow's'at shan't
she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd
someone'd've someone'll someone's something'd something'd've something'll that's there'd
there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've
weren't what'll what're what's what've when's where'd where's where've who'd who'd've who'll
who's who've why'll why're why's won't would've wouldn't wouldn't've y'all y'all'll y'all'd've
you'd you'd've you'll you're you've
"""
# Quirks: "somebody'd" loses its apostrophe, and two words have no wrong spelling; spellings with
# "I" never match lower-case text.
_QUIRKS = {"somebody'd": "somebodyd", "let's": "let's", "she's": "she's"}
CONTRACTIONS: dict[str, str] = _QUIRKS | {
    word[:at] + word[at + 1 :]: word
    for word in _CONTRACTIONS.split()
    for at, letter in enumerate(word)
    if letter == "'"
}


def strip_punctuation(text: str) -> str:
    """Deletes punctuation or replaces it by spaces; the first step of `normalise_answer`.

    A mark is deleted everywhere if it is next to a space anywhere in the text, or if the text
    contains a number with a comma; otherwise it is replaced by a space (processPunctuation of
    vqaEval.py).

    Example:
        >>> [strip_punctuation(text) for text in ("black/white", "yes, sir", "1,000")]
        ['black white', 'yes sir', '1000']
    """
    comma_in_number = _NUMBER_COMMA.search(text) is not None
    stripped = text
    for mark in _PUNCTUATION:
        if mark in stripped:
            # As in the official code, spaces are looked up in the original text, before any
            # deletion.
            delete = comma_in_number or f"{mark} " in text or f" {mark}" in text
            stripped = stripped.replace(mark, "" if delete else " ")
    return _FULL_STOP.sub("", stripped, count=_MOST_FULL_STOPS)


def unify_words(text: str, contractions: Mapping[str, str] = CONTRACTIONS) -> str:
    """Unifies case, number words, articles and contractions; the last step of `normalise_answer`.

    This is processDigitArticle of vqaEval.py: lower-case words with single spaces, number words
    as digits, no articles, and `contractions` replaced.

    Example:
        >>> unify_words("The Two dogs dont bark")
        "2 dogs don't bark"
    """
    words = (_DIGITS.get(word, word) for word in text.lower().split())
    return " ".join(contractions.get(word, word) for word in words if word not in _ARTICLES)


def clean_space(text: str) -> str:
    """Replaces newlines and tabs by spaces and removes white space at both ends.

    The official evaluation does this to every prediction and, since 2018, to the ground truth, even
    if it normalises no further. Repeated spaces inside are kept.

    Example:
        >>> clean_space(" light\\tblue\\n")
        'light blue'
    """
    return text.replace("\n", " ").replace("\t", " ").strip()


def normalise_answer(answer: str) -> str:
    """Normalises an answer as the official VQA evaluation does before comparing it.

    The steps are `clean_space`, `strip_punctuation` and `unify_words`. The caller decides whether
    to normalise the ground truth too; the official metric does so only if the annotators differ.

    Example:
        >>> normalise_answer("Two dogs."), normalise_answer("none"), normalise_answer("2:50 pm")
        ('2 dogs', '0', '2:50 pm')
    """
    return unify_words(strip_punctuation(clean_space(answer)))
