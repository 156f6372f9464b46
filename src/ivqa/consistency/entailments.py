"""Implications that a file names, such as those of GQA or ConVQA [Ray et al., EMNLP 2019]."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from ivqa.consistency.implied import answer_form, question_key
from ivqa.data.validation import read_lines
from ivqa.logic import Implication

Entailments = Mapping[tuple[tuple[int, str], str], Sequence[Implication]]
"""What follows, by image and question (`question_key`) and the answer (`answer_form`)."""


class _Line(BaseModel):
    """A line of the file; other fields, as in an implications.jsonl, are not read."""

    image_id: int
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    implied_question: str = Field(min_length=1)
    implied_answer: str = Field(min_length=1)
    rule: str = Field("entailed", pattern=r"^[a-z_]+$")


def read_entailments(file: Path) -> Entailments:
    """Reads a file of implications, one a line, with some fields of implications.jsonl.

    Args:
        file: A file with image_id, question, answer, implied_question and implied_answer in each
            line: where a model answers the question with the answer, the implied answer follows.
            `rule` ("entailed") names its figure.

    Returns:
        The implications by what they follow from.

    Raises:
        DataError: A line is not an implication.
    """
    found: dict[tuple[tuple[int, str], str], list[Implication]] = defaultdict(list)
    fields = "image_id, question, answer, implied_question and implied_answer"
    for line in read_lines(file, TypeAdapter(_Line), f"a line has the fields {fields}"):
        key = question_key(line.image_id, line.question), answer_form(line.answer)
        found[key].append(
            Implication(line.implied_question, line.implied_answer, line.rule, certain=False)
        )
    return found
