"""The tokeniser of questions, shared by vocabularies, metrics and rankers."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

# Letters and digits; apostrophes, hyphens and full stops inside: "don't", "t-shirt", "2.5".
_WORD = re.compile(r"[^\W_]+(?:['.\-][^\W_]+)*")
# Soft hyphens, word joiners and variation selectors: invisible, and no part of the spelling.
_INVISIBLE = re.compile("[\u00ad\u2060\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def tokenise(text: str) -> list[str]:
    """Splits a text into lower-case words without punctuation.

    Accents and vowel signs belong to their letter, composed or not (Unicode's NFC). The final "?"
    of questions is dropped too. As a token it would match in every hypothesis and inflate BLEU and
    ROUGE.

    Example:
        >>> tokenise("What's on the T-shirt, left of the 2 dogs?")
        ["what's", 'on', 'the', 't-shirt', 'left', 'of', 'the', '2', 'dogs']
    """
    return [*_words_of(text)]


@lru_cache(maxsize=1 << 16)  # questions are read again and again: in answers, rules and figures
def _words_of(text: str) -> tuple[str, ...]:
    # The typographic apostrophe counts as the plain one.
    lower = text.lower().replace("’", "'")
    if lower.isascii():
        return (*_WORD.findall(lower),)
    composed = unicodedata.normalize("NFC", _INVISIBLE.sub("", lower))
    return (*_word_with_marks().findall(composed),)


@cache
def _word_with_marks() -> re.Pattern[str]:
    r"""As `_WORD`, and a letter may have marks (Unicode's Mn and Mc), which are not in `\w`.

    Zero-width (non-)joiners count between letters, as Persian and Indian scripts use them.
    """
    marks = (chr(at) for at in range(0x300, 0x1F000))
    listed = "".join(one for one in marks if unicodedata.category(one) in ("Mn", "Mc"))
    word = rf"(?:[^\W_]++(?:[{listed}]|[\u200c\u200d]+(?=[^\W_]))*+)++"
    return re.compile(rf"{word}(?:['.\-]{word})*")


def detokenise(words: Sequence[str]) -> str:
    """Writes words as a question: a capital at the start, single spaces, "?" at the end.

    Example:
        >>> detokenise(["how", "many", "dogs"])
        'How many dogs?'
    """
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:] + "?"
