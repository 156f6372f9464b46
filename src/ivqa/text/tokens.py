"""The tokeniser of questions, shared by vocabularies, metrics and rankers."""

import re
from collections.abc import Sequence

# Letters and digits; apostrophes, hyphens and full stops inside: "don't", "t-shirt", "2.5".
_WORD = re.compile(r"[^\W_]+(?:['’.\-][^\W_]+)*")


def tokenise(text: str) -> list[str]:
    """Splits a text into lower-case words without punctuation.

    The final "?" of questions is dropped too. As a token it would match in every hypothesis and
    inflate BLEU and ROUGE.

    Args:
        text: The text.

    Returns:
        The words.

    Example:
        >>> tokenise("What's on the T-shirt, left of the 2 dogs?")
        ["what's", 'on', 'the', 't-shirt', 'left', 'of', 'the', '2', 'dogs']
    """
    # The typographic apostrophe counts as the plain one.
    return _WORD.findall(text.lower().replace("’", "'"))


def detokenise(words: Sequence[str]) -> str:
    """Writes words as a question: a capital at the start, single spaces, "?" at the end.

    Args:
        words: The words.

    Example:
        >>> detokenise(["how", "many", "dogs"])
        'How many dogs?'
    """
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:] + "?"
