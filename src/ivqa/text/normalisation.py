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

# One line for each contraction: its correct spelling, then the spellings that are replaced by it.
_SPELLINGS = """
ain't: aint
aren't: arent
can't: cant
could've: couldve
couldn't: couldnt
couldn't've: couldn'tve couldnt've
didn't: didnt
doesn't: doesnt
don't: dont
hadn't: hadnt
hadn't've: hadnt've hadn'tve
hasn't: hasnt
haven't: havent
he'd: hed
he'd've: hed've he'dve
he's: hes
how'd: howd
how'll: howll
how's: hows
I'd've: Id've I'dve
I'm: Im
I've: Ive
isn't: isnt
it'd: itd
it'd've: itd've it'dve
it'll: itll
let's: let's
ma'am: maam
mightn't: mightnt
mightn't've: mightnt've mightn'tve
might've: mightve
mustn't: mustnt
must've: mustve
needn't: neednt
not've: notve
o'clock: oclock
oughtn't: oughtnt
'ow's'at: ow's'at 'ows'at 'ow'sat
shan't: shant
she'd've: shed've she'dve
she's: she's
should've: shouldve
shouldn't: shouldnt
shouldn't've: shouldnt've shouldn'tve
somebodyd: somebody'd
somebody'd've: somebodyd've somebody'dve
somebody'll: somebodyll
somebody's: somebodys
someone'd: someoned
someone'd've: someoned've someone'dve
someone'll: someonell
someone's: someones
something'd: somethingd
something'd've: somethingd've something'dve
something'll: somethingll
that's: thats
there'd: thered
there'd've: thered've there'dve
there're: therere
there's: theres
they'd: theyd
they'd've: theyd've they'dve
they'll: theyll
they're: theyre
they've: theyve
'twas: twas
wasn't: wasnt
we'd've: wed've we'dve
we've: weve
weren't: werent
what'll: whatll
what're: whatre
what's: whats
what've: whatve
when's: whens
where'd: whered
where's: wheres
where've: whereve
who'd: whod
who'd've: whod've who'dve
who'll: wholl
who's: whos
who've: whove
why'll: whyll
why're: whyre
why's: whys
won't: wont
would've: wouldve
wouldn't: wouldnt
wouldn't've: wouldnt've wouldn'tve
y'all: yall
y'all'll: yall'll y'allll
y'all'd've: yall'd've y'alld've y'all'dve
you'd: youd
you'd've: youd've you'dve
you'll: youll
you're: youre
you've: youve
"""
# Quirks: "somebody'd" loses its apostrophe; spellings with "I" never match lower-case text.
CONTRACTIONS: dict[str, str] = {
    spelling: target
    for target, spellings in (row.split(": ") for row in _SPELLINGS.split("\n") if row)
    for spelling in spellings.split()
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
