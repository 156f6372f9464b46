"""Words of a question: the one tokeniser that vocabularies, metrics and rankers share."""

import re
from collections.abc import Sequence

# Letters and digits with inner apostrophes, hyphens or decimal points: "don't", "t-shirt", "2.5".
_WORD = re.compile(r"[^\W_]+(?:['’.\-][^\W_]+)*")


def tokenise(text: str) -> list[str]:
    """Lower-case words of `text`, punctuation dropped.

    The final "?" that every question carries is dropped too: kept, it would be one token that
    every hypothesis gets right, which inflates BLEU and ROUGE.

    >>> tokenise("What's on the T-shirt, left of the 2 dogs?")
    ["what's", 'on', 'the', 't-shirt', 'left', 'of', 'the', '2', 'dogs']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def detokenise(words: Sequence[str]) -> str:
    """A question as VQA writes it: upper-case start, one space between words, "?" at the end.

    >>> detokenise(["how", "many", "dogs"])
    'How many dogs?'
    """
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:] + "?"
