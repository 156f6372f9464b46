"""Questions with the same words: how a text-only pool is made unique."""

from collections.abc import Sequence

from ivqa.text.tokens import tokenise


def unique_questions(questions: Sequence[str]) -> list[str]:
    """The questions that differ in their words, in order of first occurrence.

    >>> unique_questions(["Is it red?", "is it red", "Why?"])
    ['Is it red?', 'Why?']
    """
    first: dict[tuple[str, ...], str] = {}
    for question in questions:
        first.setdefault(tuple(tokenise(question)), question)
    return list(first.values())


def duplicates_of(questions: Sequence[str], pool: Sequence[str]) -> list[list[int]]:
    """For each main question the rows of the pool with the same words.

    They must be excluded: LASSO would put all its weight there [IJCV, Table 8].
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, question in enumerate(pool):
        rows.setdefault(tuple(tokenise(question)), []).append(row)
    return [rows.get(tuple(tokenise(question)), []) for question in questions]
