"""A-OKVQA: questions that need knowledge of the world (Schwenk et al., ECCV 2022)."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len
from numpy.typing import NDArray
from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict, override

from ivqa.data.batches.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.published import REMEDY, PublishedDataset, Record, records
from ivqa.data.split import ExactMatch, VQASplit
from ivqa.data.validation import Id, Problems, checked
from ivqa.text.answer_matching import AnswerRule, as_written


class _Question(TypedDict):
    question_id: str
    image_id: Id
    question: str
    choices: Annotated[list[str], Len(2)]


class _Answered(_Question):
    direct_answers: Annotated[list[str], Len(1)]
    correct_choice_idx: int
    difficult_direct_answer: bool
    rationales: list[str]


def _right_choice_given(record: _Answered) -> _Answered:
    number, correct = len(record["choices"]), record["correct_choice_idx"]
    if not 0 <= correct < number:
        raise ValueError(f"correct_choice_idx: must be 0 to {number - 1}, not {correct}")
    return record


_EXTRAS = ("correct_choice_idx", "difficult_direct_answer", "rationales")
_QUESTION, _ANSWERED = (
    TypeAdapter(_Question),
    TypeAdapter(Annotated[_Answered, AfterValidator(_right_choice_given)]),
)


def _of_three(matches: NDArray[np.int64], annotators: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.minimum(matches / 3, 1.0)


class AOKVQAMetric(ExactMatch):
    """The evaluation of A-OKVQA, evaluation/eval_predictions.py of its repository.

    Direct answers: min(equal direct answers / 3, 1), letter by letter. Questions with
    "difficult_direct_answer" are left out. Multiple choice: the share of all questions for which
    the choice "correct_choice_idx" was chosen.
    """

    rule = AnswerRule(as_written, as_written, worth=_of_three)

    @override
    def counted(self, split: VQASplit) -> NDArray[np.bool_]:
        """Which questions have direct answers that count, see `AnswerMetric.counted`."""
        difficult = split.extras.get("difficult_direct_answer", [False] * len(split))
        return np.array([value is not True for value in difficult], dtype=np.bool_)

    @override
    def choice_accuracies(self, split: VQASplit, chosen: Sequence[str]) -> NDArray[np.float64]:
        assert split.multiple_choices is not None
        correct = zip(split.multiple_choices, split.extras["correct_choice_idx"], strict=True)
        right = [choices[at] for choices, at in correct]
        return (np.array(chosen, dtype=object) == np.array(right, dtype=object)).astype(np.float64)


def official_aokvqa(
    root: str | Path,
    *,
    train: str | None = "train",
    val: str | None = "val",
    test: str | None = None,
) -> PublishedDataset:
    """Opens A-OKVQA under its official file names; nothing is read yet.

    aokvqa_v1p0_SPLIT.json lists the questions; images/SPLIT2017/ or SPLIT2017/ holds those of COCO
    2017. The answers of a question are its ten direct answers, and `multiple_choices` has its
    four choices. `extras` has "question_id", and for questions with answers "correct_choice_idx",
    "difficult_direct_answer" and "rationales". The split "test" has no answers.

    `root`, `train`, `val` and `test` are those of `VQADataset`.
    """
    return PublishedDataset(
        root,
        reader=_read,
        metric=AOKVQAMetric(),
        title="A-OKVQA",
        server_results=_results,
        train=train,
        val=val,
        test=test,
        files=FilePatterns(
            question_file="aokvqa_v1p0_{split}",
            image_pattern=(
                "images/{split}2017/*{image_id:012d}.*",
                "{split}2017/*{image_id:012d}.*",
            ),
        ),
    )


def question_number(question_id: str) -> int:
    """Converts a question's id, 22 letters and digits, to 63 bits of its BLAKE2b digest.

    Example:
        >>> question_number("22MexNkBPpdZGX6sxbxVBH")
        7151759667302875656
    """
    return int.from_bytes(blake2b(question_id.encode(), digest_size=8).digest(), "big") >> 1


def _read(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads a list of {"question_id", "image_id", "question", "choices", ...}."""
    for position, record in records(path, None, problems):
        where = f"question {record.get('question_id', position)}"
        schema: TypeAdapter[Any] = _ANSWERED if "direct_answers" in record else _QUESTION
        if checked(schema, record, path, where, problems, REMEDY) is None:
            continue
        extras = ("question_id", *_EXTRAS) if schema is _ANSWERED else ("question_id",)
        yield Entry(
            name=record["question_id"],
            question_id=question_number(record["question_id"]),
            image_id=record["image_id"],
            question=record["question"],
            answers=record.get("direct_answers"),
            multiple_choices=record["choices"],
            extras={key: record[key] for key in extras},
        )


def _results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> Record:
    """Formats answers for the leaderboard, see `ivqa.data.results.results_text`."""
    given = {"multiple_choice": chosen, "direct_answer": answers}
    return {
        name: {key: texts[row] for key, texts in given.items() if texts is not None}
        for row, name in enumerate(split.extras["question_id"])
    }
