"""Further training questions about the images of a data set, whose files stay as they are."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from typing_extensions import override

from ivqa.data.batches.columns import Columns, Entry
from ivqa.data.dataset import VQADataset
from ivqa.data.oracles import Oracle
from ivqa.data.records import answer_records, write_records
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, Problems
from ivqa.store.digests import digest


class ExtendedDataset(VQADataset):
    """A data set with further training questions, which get new ids. Its `cache_key` covers them.

    Raises:
        DataError: The training split is also used for another stage, which would change too.
    """

    def __init__(self, base: VQADataset, extra: VQASplit) -> None:
        check_extensible(base)
        stages = dict(base.stages)
        super().__init__(base.root, **stages, files=base.files, require_images=base.require_images)
        self.base = base
        self.extra = extra

    @override
    def prepare(self) -> None:
        self.base.prepare()

    @property
    @override
    def title(self) -> str:
        return self.base.title

    @property
    @override
    def has_images(self) -> bool:
        return self.base.has_images

    @override
    def lacks_annotations(self, stage_or_name: str) -> bool:
        return self.base.lacks_annotations(stage_or_name)

    @override
    def oracle(self, stage_or_name: str) -> Oracle | None:
        return self.base.oracle(stage_or_name)

    @override
    def cache_key(self) -> str:
        extra = self.extra
        columns = [extra.image_ids.tolist(), extra.questions, extra.answers, extra.main_answers]
        return digest([self.base.cache_key(), *columns])

    def _read(self, name: str) -> VQASplit:
        own = self.base.split(name)
        return joined(own, self.extra) if name == self.stages["train"] else own


def check_extensible(dataset: VQADataset) -> None:
    """Checks that questions can be added to a data set for training alone.

    Raises:
        DataError: The training split is also used for another stage.
    """
    own = dataset.stages["train"]
    shared = [stage for stage, name in dataset.stages.items() if name == own]
    if len(shared) > 1:
        raise DataError(
            f"split '{own}' serves as {' and '.join(shared)}, so questions cannot be added for "
            f"training alone; set data.{shared[-1]} to another split"
        )


def questions_of(entries: Iterable[Entry], name: str) -> VQASplit:
    """Collects at least one question, all with answers, as a split without images.

    Raises:
        DataError: A question has no words or an id that occurs twice.
    """
    columns, problems = Columns(), Problems()
    for entry in entries:
        columns.add(entry, Path(name), problems)
    problems.raise_if_any()
    return columns.split(name, None, ())


def write_questions(root: Path, split: VQASplit) -> None:
    """Writes the questions of a split, and their answers, in VQA format into the folder `root`."""
    columns = {
        "question_id": split.question_ids.tolist(),
        "image_id": split.image_ids.tolist(),
        "question": split.questions,
    }
    if split.kinds is not None:
        columns["kind"] = split.kinds
    rows = zip(*columns.values(), strict=True)
    questions = [dict(zip(columns, row, strict=True)) for row in rows]
    annotations = [
        {
            "question_id": question["question_id"],
            "image_id": question["image_id"],
            "question_type": split.question_types[row],
            "answer_type": split.answer_types[row],
            "multiple_choice_answer": split.main_answers[row],
            "answers": answer_records(split.answers[row]),
        }
        for row, question in enumerate(questions if split.has_answers else ())
    ]
    write_records(root, split.name, questions, annotations)


def joined(own: VQASplit, extra: VQASplit) -> VQASplit:
    """The questions of both, those of `extra` with new ids; layouts only where both have them."""
    first = int(own.question_ids.max()) + 1
    ids = first + np.arange(len(extra))
    layouts = None
    if own.layouts is not None and extra.layouts is not None and len(extra.layouts) == len(extra):
        renamed = zip(ids.tolist(), extra.question_ids.tolist(), strict=True)
        layouts = own.layouts | {new: extra.layouts[old] for new, old in renamed}
    return replace(
        own,
        question_ids=np.concatenate([own.question_ids, ids]),
        image_ids=np.concatenate([own.image_ids, extra.image_ids]),
        questions=own.questions + extra.questions,
        answers=own.answers + extra.answers,
        main_answers=own.main_answers + extra.main_answers,
        answer_types=own.answer_types + extra.answer_types,
        question_types=own.question_types + extra.question_types,
        layouts=layouts,
        # Training reads none of these, which `extra` may lack.
        multiple_choices=None,
        extras={key: values + [None] * len(extra) for key, values in own.extras.items()},
        kinds=None,
    )
