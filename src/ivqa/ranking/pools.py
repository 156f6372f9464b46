"""Pools of basic questions, each one function here and one file in conf/bqd, and their answers."""

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa

from ivqa.data import DataError, VQADataset, VQASplit
from ivqa.errors import UserError
from ivqa.ranges import AtLeastOne
from ivqa.ranking.bqd_files import list_of
from ivqa.text.duplicates import unique_questions
from ivqa.text.tokens import tokenise

_ANSWERS = list_of(list_of(pa.string()))
Splits = Annotated[Sequence[str], AtLeastOne]


def general_questions(dataset: VQADataset, splits: Splits) -> list[str]:
    """The pool of the general basic question dataset (GBQD) [ROB 4]: all questions, each once.

    Questions count as equal after normalisation; the order is that of their first occurrence.
    """
    return unique_questions([text for name in splits for text in dataset.split(name).questions])


def questions_of_answer_type(dataset: VQADataset, splits: Splits, answer_type: str) -> list[str]:
    """The questions of one answer type, each once: for yes/no the pool of the YNBQD [ROB 4].

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


def with_main_answers(table: pa.Table, split: VQASplit) -> pa.Table:
    """Adds the column `question_answers`: the annotators' answers to each main question [ROB 4].

    A table of a split without annotations stays unchanged.
    """
    if not split.has_answers:
        return table
    given = dict(zip(split.question_ids.tolist(), split.answers, strict=True))
    column = [given[number] for number in table["question_id"].to_pylist()]
    return table.append_column("question_answers", pa.array(column, _ANSWERS.value_type))


def with_answers(table: pa.Table, dataset: VQADataset, splits: Sequence[str]) -> pa.Table:
    """Adds the column `answers`: the answers that annotators gave to each basic question.

    A question of the pool may have been asked about several images; its first occurrence in the
    splits counts, as for the pool itself. VQABQ appends basic questions with their answers
    [VQABQ 3].

    Raises:
        UserError: A basic question is in none of the splits.
        DataError: A split has no annotations.
    """
    given: dict[tuple[str, ...], list[str]] = {}
    for name in splits:
        split = dataset.split(name).require_answers()
        for text, answers in zip(split.questions, split.answers, strict=True):
            given.setdefault(tuple(tokenise(text)), answers)
    # Each distinct text is looked up once: basic questions repeat often.
    found: dict[str, list[str]] = {}
    rows = table["basic_questions"].to_pylist()
    for text in dict.fromkeys(text for row in rows for text in row):
        known = given.get(tuple(tokenise(text)))
        if known is None:
            raise UserError(
                f"basic question '{text}' is in none of the splits {', '.join(splits)}, so its "
                "answers are not known; leave keep_answers=true out"
            )
        found[text] = known
    column = [[found[text] for text in row] for row in rows]
    return table.append_column("answers", pa.array(column, _ANSWERS))
