"""Which questions are basic questions: a pool is one function here and one file in conf/bqd."""

from collections.abc import Sequence
from typing import Annotated

from ivqa.data import DataError, VQADataset
from ivqa.ranges import AtLeastOne
from ivqa.text.duplicates import unique_questions

Splits = Annotated[Sequence[str], AtLeastOne]


def general_questions(dataset: VQADataset, splits: Splits) -> list[str]:
    """All questions of the splits, each once: the general basic question dataset [ROB 4]."""
    return unique_questions([text for name in splits for text in dataset.split(name).questions])


def questions_of_answer_type(dataset: VQADataset, splits: Splits, answer_type: str) -> list[str]:
    """Questions with answers of one type, each once; of yes/no it is the YNBQD [ROB 4].

    Raises DataError where a split has no annotations, or no question is of that type.
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
