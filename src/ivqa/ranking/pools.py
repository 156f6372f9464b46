"""Pools of basic questions: each pool is one function here and one file in conf/bqd."""

from collections.abc import Sequence
from typing import Annotated

from ivqa.data import DataError, VQADataset
from ivqa.ranges import AtLeastOne
from ivqa.text.duplicates import unique_questions

Splits = Annotated[Sequence[str], AtLeastOne]


def general_questions(dataset: VQADataset, splits: Splits) -> list[str]:
    """The pool of the general basic question dataset (GBQD) [ROB 4]: all questions, each once.

    Args:
        dataset: Where the splits come from.
        splits: Names of the splits.

    Returns:
        The questions, without repetitions after normalisation, in order of first occurrence.
    """
    return unique_questions([text for name in splits for text in dataset.split(name).questions])


def questions_of_answer_type(dataset: VQADataset, splits: Splits, answer_type: str) -> list[str]:
    """The questions of one answer type, each once: for yes/no the pool of the YNBQD [ROB 4].

    Args:
        dataset: Where the splits come from.
        splits: Names of the splits.
        answer_type: An answer type of the annotations, such as "yes/no".

    Returns:
        The questions, without repetitions after normalisation, in order of first occurrence.

    Raises:
        DataError: A split has no annotations, or no question has that answer type.
    """
    kept: list[str] = []
    for name in splits:
        split = dataset.split(name).require_answers()
        typed = zip(split.questions, split.answer_types, strict=True)
        kept += [text for text, kind in typed if kind == answer_type]
    if not kept:
        raise DataError(
            f"no question of {', '.join(splits)} in {dataset.root} has an answer of type "
            f"'{answer_type}'; choose bqd=gbqd or other bqd.splits"
        )
    return unique_questions(kept)
