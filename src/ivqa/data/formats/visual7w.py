"""Visual7W, telling questions: what, where, when, who, why and how (Zhu et al., CVPR 2016)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import TypedDict, override

from ivqa.data.batches.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.published import REMEDY, PublishedDataset, records
from ivqa.data.split import ExactMatch, VQASplit
from ivqa.data.validation import Id, Problems, checked
from ivqa.text.answer_matching import AnswerRule
from ivqa.text.answers import vqa_accuracies


class _Image(TypedDict):
    image_id: Id
    qa_pairs: list[dict[str, Any]]


class _Pair(TypedDict):
    qa_id: Id
    question: str
    answer: str
    type: str
    multiple_choices: Annotated[list[str], Len(1)]


_IMAGE, _PAIR = TypeAdapter(_Image), TypeAdapter(_Pair)


class Visual7WMetric(ExactMatch):
    """The evaluation of the Visual7W toolkit, for open and multiple-choice answers alike.

    An answer is right if it equals the published one up to upper and lower case. Full stops count,
    and most published answers end with one. So there is also `visual7w/normalised`: the share of
    right answers after the normalisation of the VQA evaluation, which removes full stops, for
    models that do not write them. The toolkit has no such figure.
    """

    rule = AnswerRule(str.lower, str.lower)

    @override
    def figures(
        self,
        split: VQASplit,
        answers: Sequence[str],
        accuracies: NDArray[np.float64],
        probability: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        return {"visual7w/normalised": float(vqa_accuracies(answers, split.answers).mean())}


def official_visual7w(
    root: str | Path,
    *,
    train: str | None = "train",
    val: str | None = "val",
    test: str | None = "test",
) -> PublishedDataset:
    """Opens Visual7W under its official file names; nothing is read yet.

    dataset_v7w_telling.json holds all splits, images/ all images. The answers are sentences as
    published, such as "At a park."; `Visual7WMetric` says how they are compared.
    `multiple_choices` has the answer and the three wrong choices in alphabetical order.

    `root`, `train`, `val` and `test` are those of `VQADataset`.
    """
    return PublishedDataset(
        root,
        reader=_read,
        metric=Visual7WMetric(),
        title="Visual7W",
        train=train,
        val=val,
        test=test,
        files=FilePatterns(
            question_file="dataset_v7w_telling",
            image_pattern=("images/v7w_{image_id}.*", "visual7w_images/v7w_{image_id}.*"),
        ),
    )


def _read(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads one split of {"images": [{"split", "image_id", "qa_pairs": [...]}, ...]}."""
    for position, image in records(path, "images", problems):
        if image.get("split") != split:
            continue
        where = f"image {image.get('image_id', position)}"
        if checked(_IMAGE, image, path, where, problems, REMEDY) is None:
            continue
        for pair in image["qa_pairs"]:
            number = pair.get("qa_id")
            found = checked(_PAIR, pair, path, f"question {number}", problems, REMEDY)
            if found is not None:
                yield Entry(
                    name=str(number),
                    question_id=number,
                    image_id=image["image_id"],
                    question=pair["question"],
                    answers=[pair["answer"]],
                    question_type=pair["type"],
                    # Sorted: the position of the right answer must not give it away.
                    multiple_choices=sorted({pair["answer"], *pair["multiple_choices"]}),
                )
