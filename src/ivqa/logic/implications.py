"""Questions whose answers follow from an answer, after Ribeiro, Guestrin and Singh (ACL 2019)."""

import re
from dataclasses import dataclass

_EXISTS = re.compile(r"(?:is|are) there (?:an?|any) (.+?)\??", re.IGNORECASE)


@dataclass(frozen=True)
class Implication:
    """A question, and the answer that it must have.

    Args:
        question: The implied question.
        answer: Its answer.
        rule: Name of the rule, such as "presupposition".
        certain: Whether the rule holds for every true answer. One that is not certain holds for
            most: a striped thing is red and also blue.
    """

    question: str
    answer: str
    rule: str
    certain: bool


def implications(question: str, answer: str) -> list[Implication]:
    """Questions whose answers follow from one answer about an image.

    Args:
        question: A question in plain English.
        answer: An answer to it, right or wrong.

    Returns:
        What must be answered as well if `answer` is right, without the question itself; empty where
        nothing is known to follow.

    Example:
        >>> implications("Is there a car?", "yes")[0]
        Implication(question='Is there no car?', answer='no', rule='equivalence', certain=True)
    """
    found = _EXISTS.fullmatch(question.strip())
    if found is None or answer not in ("yes", "no"):
        return []
    other = {"yes": "no", "no": "yes"}[answer]
    return [Implication(f"Is there no {found[1]}?", other, "equivalence", certain=True)]
