"""Finds questions with the same words."""

from collections.abc import Sequence

from ivqa.text.tokens import tokenise


def unique_questions(questions: Sequence[str]) -> list[str]:
    """Removes questions that have the same words as an earlier one.

    Example:
        >>> unique_questions(["Is it red?", "is it red", "Why?"])
        ['Is it red?', 'Why?']
    """
    first: dict[tuple[str, ...], str] = {}
    for question in questions:
        first.setdefault(tuple(tokenise(question)), question)
    return list(first.values())


def duplicates_of(questions: Sequence[str], pool: Sequence[str]) -> list[list[int]]:
    """Finds the rows of a pool that have the same words as each main question.

    A ranking must exclude them, because LASSO would give them all the weight [IJCV, Table 8].

    Example:
        >>> duplicates_of(["Is it red?", "Why?"], ["is it red", "Where?"])
        [[0], []]
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, question in enumerate(pool):
        rows.setdefault(tuple(tokenise(question)), []).append(row)
    return [rows.get(tuple(tokenise(question)), []) for question in questions]
