"""The measurement of consistency: which images, how many questions, and its figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ivqa.consistency.figures import consistency_figures, wrongness
from ivqa.consistency.implied import (
    AnsweredQuestion,
    Entailments,
    affordable,
    followed_up,
    implied_by,
    question_key,
    question_number,
    read_entailments,
)
from ivqa.consistency.records import ConsistencyRecords
from ivqa.data import VQASplit
from ivqa.data.images import ImageFiles
from ivqa.data.oracles import Oracle
from ivqa.errors import UserError
from ivqa.ranges import Count, ExistingFile, Resamples, Seed
from ivqa.text.failed_answers import failure

IMPLIED_SPLIT = "implied"

Ask = Callable[[Sequence[tuple[int, str]]], Sequence[AnsweredQuestion] | None]
"""Answers questions, each given by its image and its text."""


@dataclass(frozen=True, kw_only=True)
class ConsistencyMeasure:
    """Compares what a model answers with what follows from its other answers.

    Args:
        num_images: Number of images of the split, drawn at random; None for all. All questions
            about an image are asked, since only answers about one image can contradict each other.
        max_questions: The most further questions to ask about an image.
        rounds: Rounds of further questions. The first has what follows from the answers to the
            questions of the data set; each other one follows up the answers of the one before.
        entailments: A file of implications beside those of the rules, see `read_entailments`; None
            for none.
        resamples: Number of resamples of the bootstrap.
        seed: Seed of the images and of the bootstrap.
    """

    num_images: Count | None = 200
    max_questions: Count = 500
    rounds: Count = 1
    entailments: ExistingFile | None = None
    resamples: Resamples = 1000
    seed: Seed = 0

    def chosen(self, split: VQASplit) -> VQASplit:
        """The questions about the images that are drawn, in the order of the split."""
        images = np.unique(split.image_ids)
        if self.num_images is None or self.num_images >= len(images):
            return split
        # A prefix of one random order: more images contain the fewer ones.
        drawn = np.random.default_rng(self.seed).permutation(images)[: self.num_images]
        return split.select(np.flatnonzero(np.isin(split.image_ids, drawn)))

    def asked(
        self,
        own: Sequence[AnsweredQuestion],
        ask: Ask,
        budget: int | None = None,
        ask_witness: Ask | None = None,
    ) -> ConsistencyRecords:
        """Asks further questions and compares all answers.

        Args:
            own: The answers to the chosen questions.
            ask: Answers questions, each given by image and text, in the order of the round; None
                ends the measurement.
            budget: The most questions to ask in all; None for any number.
            ask_witness: Has another model answer all questions that were asked; None without one.

        Returns:
            The records.

        Raises:
            UserError: The file of entailments has none about the questions.
            DataError: The file is damaged.
        """
        implied = implied_by(own, self._entailments(own), self.max_questions)
        wanted, given = implied.wanted, list[AnsweredQuestion]()
        for _ in range(self.rounds):
            questions = affordable(wanted, [*own, *given], self.max_questions, budget)
            answers = ask(questions) if questions else None
            if answers is None:
                break
            given += answers
            wanted = followed_up(answers)
        everything = [(one.image_id, one.question) for one in (*own, *given)]
        said = ask_witness(everything) if ask_witness is not None else None
        return ConsistencyRecords.of(own, implied, given, said or ())

    def _entailments(self, own: Sequence[AnsweredQuestion]) -> Entailments | None:
        if self.entailments is None:
            return None
        found = read_entailments(Path(self.entailments))
        asked = {question_key(one.image_id, one.question) for one in own}
        if not any(key in asked for key, _ in found):
            raise UserError(
                f"{self.entailments}: no line is about a question that was asked; give the file of "
                "this data set and split, or entailments=null"
            )
        return found

    def figures(
        self, records: ConsistencyRecords, split: VQASplit, oracle: Oracle | None
    ) -> dict[str, float]:
        """The figures of `consistency_figures`, with "consistency/" before each name."""
        wrong = wrongness(records, split, oracle)
        figures = consistency_figures(records, self.resamples, self.seed, wrong)
        return {f"consistency/{name}": value for name, value in figures.items()}


def answered(
    split: VQASplit,
    answers: Sequence[str | None],
    confidences: Sequence[float | None] | None = None,
    *,
    implied: bool = False,
) -> list[AnsweredQuestion]:
    """The answers to the questions of a split, without those that are none.

    Args:
        split: N questions.
        answers: N answers; None, or an error message of a failed request, is no answer.
        confidences: phi of each; None where unknown.
        implied: Whether the questions are those of `implied_split`.

    Returns:
        The answers; those to implied questions have no question_id.

    Raises:
        UserError: None is an answer, although there are questions.
    """
    rows = zip(
        split.image_ids.tolist(),
        split.questions,
        answers,
        confidences or [None] * len(split),
        split.question_ids.tolist(),
        strict=True,
    )
    found = [
        AnsweredQuestion(image, question, answer, phi, None if implied else number)
        for image, question, answer, phi, number in rows
        if answer is not None and failure(answer) is None
    ]
    if len(split) and not found:
        raise UserError(
            f"none of the {len(split):,} answers to the questions of split '{split.name}' is one: "
            "they are empty or hold what a failed request left"
        )
    return found


def implied_split(split: VQASplit, questions: Sequence[tuple[int, str]]) -> VQASplit:
    """Questions beside those of a data set, as a split without annotations.

    Args:
        split: The questions of the data set, which has the images.
        questions: Image and text of M questions.
    """
    return questions_split(IMPLIED_SPLIT, questions, split.images, split.images_tried)


def questions_split(
    name: str,
    questions: Sequence[tuple[int, str]],
    images: ImageFiles | None,
    images_tried: tuple[str, ...] = (),
) -> VQASplit:
    """Any questions about images as a split without annotations.

    Args:
        name: Name of the split.
        questions: Image and text of M questions, which get the ids of `question_number`.
        images_tried: See `VQASplit`.
    """
    size = len(questions)
    return VQASplit(
        name=name,
        question_ids=np.array([question_number(*one) for one in questions], np.int64),
        image_ids=np.array([image for image, _ in questions], np.int64),
        questions=[text for _, text in questions],
        answers=[[] for _ in questions],
        main_answers=[""] * size,
        answer_types=[""] * size,
        question_types=[""] * size,
        has_answers=False,
        images=images,
        images_tried=images_tried,
    )
