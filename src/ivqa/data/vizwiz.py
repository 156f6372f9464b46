"""VizWiz: questions of blind people about their photographs (Gurari et al., CVPR 2018)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ivqa.data.batch import ANSWER_TYPES
from ivqa.data.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.published import PublishedDataset, Record, records
from ivqa.data.records import answer_texts
from ivqa.data.validation import Problems, check_text, shown
from ivqa.data.vqa_json import VQASplit

_NUMBER = re.compile(r"(\d+)\.\w+$")


def official_vizwiz(
    root: str | Path,
    *,
    train: str | None = "train",
    val: str | None = "val",
    test: str | None = None,
) -> PublishedDataset:
    """Opens VizWiz-VQA under its official file names.

    Annotations/SPLIT.json lists the questions, images/SPLIT/ holds the photographs. Each photograph
    has one question, whose id is the number in the file name. Questions of the answer type
    "unanswerable" count as "other"; `extras` has "image" (the name of the photograph), "answerable"
    and the official "answer_type".

    Args:
        root: The folder.
        train: Name of the training split, or None.
        val: Name of the validation split, or None.
        test: Name of the test split, or None. The split "test" has no answers.

    Returns:
        The data set; nothing is read yet.
    """
    return PublishedDataset(
        root,
        reader=read_vizwiz,
        title="VizWiz",
        server_results=vizwiz_results,
        train=train,
        val=val,
        test=test,
        files=FilePatterns(
            question_file="Annotations/{split}",
            image_pattern=("images/{split}/*_{image_id:08d}.*", "{split}/*_{image_id:08d}.*"),
        ),
    )


def read_vizwiz(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads a file of VizWiz: a list of {"image", "question", "answers", "answerable", ...}.

    Args:
        path: The file.
        split: Name of the split.
        problems: Collects the faults.

    Yields:
        The questions.

    Raises:
        DataError: The file cannot be read.
    """
    for position, record in records(path, None, problems):
        image = check_text(record, "image", path, f"entry {position}", problems)
        if image is None:
            continue
        where = f"question about {image}"
        number = _NUMBER.search(image)
        if number is None:
            problems.add(
                path, where, "image", "must end with a number, like VizWiz_val_00000042.jpg"
            )
            continue
        question = check_text(record, "question", path, where, problems)
        # The questions of the test split have neither answers nor their types.
        answered = "answers" in record
        answers = answer_texts(record, path, where, problems) if answered else None
        extras = _extras(record, path, where, problems) if answered else {}
        if question is None or (answered and answers is None):
            continue
        kind = extras.get("answer_type")
        yield Entry(
            name=f"about {image}",
            question_id=int(number[1]),
            image_id=int(number[1]),
            question=question,
            answers=answers,
            answer_type="other" if kind == "unanswerable" else kind,
            image_file=image,
            extras={"image": image, **extras},
        )


def vizwiz_results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[Record]:
    """Formats answers for the server, see `ivqa.data.results.results_text`."""
    names = split.extras["image"]
    return [{"image": n, "answer": a} for n, a in zip(names, answers or (), strict=True)]


def _extras(record: Record, path: Path, where: str, problems: Problems) -> dict[str, Any]:
    kind, answerable = record.get("answer_type"), record.get("answerable")
    if kind not in (*ANSWER_TYPES, "unanswerable"):
        known = ", ".join((*ANSWER_TYPES, "unanswerable"))
        problems.add(path, where, "answer_type", f"must be one of {known}, not {shown(kind)}")
    if answerable not in (0, 1):
        problems.add(path, where, "answerable", f"must be 0 or 1, not {shown(answerable)}")
    return {"answer_type": kind, "answerable": answerable}
