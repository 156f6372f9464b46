"""The answer normalisation of the official VQA evaluation, quirks included.

Scores are comparable with published ones only if the same strings count as equal, so what looks
like a mistake here (marked "quirk") is kept on purpose [Antol et al. 2015; vqaEval.py].
"""

import re

_NUMBERS = "zero one two three four five six seven eight nine ten"
_DIGITS = {"none": "0"} | {word: str(value) for value, word in enumerate(_NUMBERS.split())}
_ARTICLES = frozenset({"a", "an", "the"})
# Deleted or replaced one after the other; apostrophe and colon are not among them.
_PUNCTUATION = (*';/[]"{}()=+\\_-', *"><@`,?!")
_NUMBER_COMMA = re.compile(r"\d,\d")
# Quirk: "(?!<=\d)" is a look-ahead for the text "<=\d" where a look-behind was meant, so it never
# excludes anything, and a full stop after a digit goes too unless a digit follows.
_FULL_STOP = re.compile(r"(?!<=\d)(\.)(?!\d)")
# Quirk: re.UNICODE is passed where `sub` expects the count, so 32 deletions are the most.
_MOST_FULL_STOPS = 32

# How a contraction is spelt -> the spellings that become it, one row a target.
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
# Quirks kept: "somebody'd" loses its apostrophe; spellings in "I" never match lower-cased text.
CONTRACTIONS: dict[str, str] = {
    spelling: target
    for target, spellings in (row.split(": ") for row in _SPELLINGS.split("\n") if row)
    for spelling in spellings.split()
}


def strip_punctuation(text: str) -> str:
    """First step of `normalise_answer`: punctuation deleted, or replaced by a space.

    A mark is deleted everywhere if it touches a space anywhere in the text, or if the text holds a
    number with a comma; else it becomes a space (processPunctuation of vqaEval.py).

    >>> strip_punctuation("black/white"), strip_punctuation("yes, sir"), strip_punctuation("1,000")
    ('black white', 'yes sir', '1000')
    """
    comma_in_number = _NUMBER_COMMA.search(text) is not None
    stripped = text
    for mark in _PUNCTUATION:
        if mark in stripped:
            delete = comma_in_number or f"{mark} " in text or f" {mark}" in text
            stripped = stripped.replace(mark, "" if delete else " ")
    return _FULL_STOP.sub("", stripped, count=_MOST_FULL_STOPS)


def unify_words(text: str) -> str:
    """Second step: lower case, number words as digits, no articles, apostrophes restored.

    processDigitArticle of vqaEval.py.

    >>> unify_words("The Two dogs dont bark")
    "2 dogs don't bark"
    """
    words = (_DIGITS.get(word, word) for word in text.lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def clean_space(text: str) -> str:
    """`text` with spaces for newlines and tabs, and without white space at its ends.

    What the official evaluation does to every prediction, and since 2018 to the ground truth, even
    where it normalises no further. Spaces inside stay as many as they are.

    >>> clean_space(" light\\tblue\\n")
    'light blue'
    """
    return text.replace("\n", " ").replace("\t", " ").strip()


def normalise_answer(answer: str) -> str:
    """`answer` as the official VQA evaluation compares it.

    `clean_space`, then `strip_punctuation`, then `unify_words`. Whether the ground truth is
    normalised too is the metric's business: officially only where the annotators differ.

    >>> normalise_answer("Two dogs."), normalise_answer("none"), normalise_answer("2:50 pm")
    ('2 dogs', '0', '2:50 pm')
    """
    return unify_words(strip_punctuation(clean_space(answer)))
