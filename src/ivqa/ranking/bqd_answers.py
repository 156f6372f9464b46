"""The annotators' answers of basic questions."""

from collections.abc import Sequence

import pyarrow as pa

from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.text.tokens import tokenise

# "element" is Parquet's own name for list values: a table that is read back has the same type.
_ANSWERS = pa.list_(pa.field("element", pa.list_(pa.field("element", pa.string()))))


def with_answers(table: pa.Table, dataset: VQADataset, splits: Sequence[str]) -> pa.Table:
    """Adds the column `answers`: the answers that annotators gave to each basic question.

    A question of the pool may have been asked about several images; its first occurrence counts, as
    for the pool itself. VQABQ appends basic questions with their answers [VQABQ 3].

    Args:
        table: The BQD.
        dataset: The data of the pool.
        splits: The splits that the pool was made of, in their order.

    Returns:
        The table; `answers` has one list of texts for each basic question of a row.

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
