"""VizWiz: questions of blind people about their photographs (Gurari et al., CVPR 2018)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, TypeAdapter
from sklearn.metrics import average_precision_score, f1_score
from typing_extensions import TypedDict, override

from ivqa.data.batches.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.published import REMEDY, PublishedDataset, Record, number_in, records
from ivqa.data.records import Answers
from ivqa.data.split import ExactMatch, VQASplit
from ivqa.data.validation import Problems, checked
from ivqa.text.answer_matching import AnswerRule, as_written, leave_one_out
from ivqa.text.normalisation import CONTRACTIONS, clean_space, strip_punctuation, unify_words

_UNANSWERABLE = "unanswerable"
# Quirk of the official program: most of its contractions have curly apostrophes, so that "dont"
# equals "don’t" and not "don't". These are the words with straight ones.
_STRAIGHT = {"aint", "arent", "cant", "couldve", "couldnt", "weve", "wheres", "whove"}
_STRAIGHT_SPELLINGS = _STRAIGHT | {"couldn'tve", "hadn'tve"}


def _numbered(image: str) -> str:
    if number_in(image) is None:
        raise ValueError("must end with a number, like VizWiz_val_00000042.jpg")
    return image


class _Question(TypedDict):
    image: Annotated[str, AfterValidator(_numbered)]
    question: str


class _Answered(_Question):
    answers: Answers
    answer_type: Literal["yes/no", "number", "other", "unanswerable"]
    answerable: Literal[0, 1]


_QUESTION, _ANSWERED = TypeAdapter(_Question), TypeAdapter(_Answered)


def _curly(word: str) -> str:
    return word.replace("'", "’")


_CONTRACTIONS = {
    spelling if spelling in _STRAIGHT_SPELLINGS else _curly(spelling): (
        target if spelling in _STRAIGHT else _curly(target)
    )
    for spelling, target in CONTRACTIONS.items()
}


def _normalised(answer: str) -> str:
    return unify_words(strip_punctuation(clean_space(answer)), _CONTRACTIONS)


class VizWizMetric(ExactMatch):
    """The evaluation of VizWiz-VQA, vqaEval.py of its API.

    Accuracy: the leave-one-out average of VQA, but the answer is always normalised and the
    annotators' answers never are; by answer type, with "unanswerable" as a fourth.

    Answerability: average precision and F1 of unanswerable questions. The challenge takes a score
    of each question from a submission of its own; F1 calls a question unanswerable where the score
    of "answerable" is below 0.5. A VQA model has no such score. It is taken from the answer
    "unanswerable": 1 - phi(unanswerable | I, q) for a model with a closed set that has this answer,
    else 0 where the answer is "unanswerable" after normalisation and 1 elsewhere, as is usual for
    generative models.
    """

    rule = AnswerRule(_normalised, as_written, worth=leave_one_out)
    probed = _UNANSWERABLE

    @override
    def answer_types(self, split: VQASplit) -> list[str]:
        official = split.extras.get("answer_type", split.answer_types)
        return [kind or "" for kind in official]

    @override
    def figures(
        self,
        split: VQASplit,
        answers: Sequence[str],
        accuracies: NDArray[np.float64],
        probability: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        """Computes vizwiz/answerability_..., see `AnswerMetric.figures`.

        They are left out where no question is unanswerable.
        """
        wanted = np.array(split.extras["answerable"]) == 0
        if probability is None:
            said = [_normalised(answer) == _UNANSWERABLE for answer in answers]
            probability = np.array(said, dtype=np.float64)
        if not wanted.any():
            return {}
        precision = average_precision_score(wanted, probability)
        return {
            "vizwiz/answerability_average_precision": float(precision),
            "vizwiz/answerability_f1": float(f1_score(wanted, probability > 0.5)),
        }


def official_vizwiz(
    root: str | Path,
    *,
    train: str | None = "train",
    val: str | None = "val",
    test: str | None = None,
) -> PublishedDataset:
    """Opens VizWiz-VQA under its official file names; nothing is read yet.

    Annotations/SPLIT.json lists the questions, images/SPLIT/ holds the photographs. Each photograph
    has one question, whose id is the number in the file name. Questions of the answer type
    "unanswerable" are of the type "other" here, as in VQA; `extras` has "image" (the name of the
    photograph), "answerable" and the official "answer_type". The split "test" has no answers.

    `root`, `train`, `val` and `test` are those of `VQADataset`.
    """
    return PublishedDataset(
        root,
        reader=_read,
        metric=VizWizMetric(),
        title="VizWiz",
        server_results=_results,
        train=train,
        val=val,
        test=test,
        files=FilePatterns(
            question_file="Annotations/{split}",
            image_pattern=("images/{split}/*_{image_id:08d}.*", "{split}/*_{image_id:08d}.*"),
        ),
    )


def _read(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads a file of VizWiz: a list of {"image", "question", "answers", "answerable", ...}."""
    for position, record in records(path, None, problems):
        image = record.get("image")
        where = f"question about {image}" if isinstance(image, str) else f"entry {position}"
        # The questions of the test split have neither answers nor their types.
        answered = "answers" in record
        schema: TypeAdapter[Any] = _ANSWERED if answered else _QUESTION
        if checked(schema, record, path, where, problems, REMEDY) is None:
            continue
        number = number_in(record["image"]) or 0
        kind = record["answer_type"] if answered else None
        extras = ("image", "answer_type", "answerable") if answered else ("image",)
        yield Entry(
            name=f"about {image}",
            question_id=number,
            image_id=number,
            question=record["question"],
            answers=[one["answer"] for one in record["answers"]] if answered else None,
            answer_type="other" if kind == _UNANSWERABLE else kind,
            image_file=record["image"],
            extras={key: record[key] for key in extras},
        )


def _results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[Record]:
    """Formats answers for the server, see `ivqa.data.results.results_text`."""
    names = split.extras["image"]
    return [{"image": n, "answer": a} for n, a in zip(names, answers or (), strict=True)]
