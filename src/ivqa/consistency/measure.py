"""The measurement of consistency: which images, how many questions, and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ivqa.consistency.figures import consistency_figures, wrongness
from ivqa.consistency.implied import AnsweredQuestion, Implied, implied_by, question_number
from ivqa.consistency.records import ConsistencyRecords
from ivqa.data import VQASplit
from ivqa.data.oracles import Oracle
from ivqa.errors import UserError
from ivqa.ranges import Count, Resamples, Seed
from ivqa.text.failed_answers import failure

IMPLIED_SPLIT = "implied"


@dataclass(frozen=True, kw_only=True)
class ConsistencyMeasure:
    """Compares what a model answers with what follows from its other answers.

    Args:
        num_images: Number of images of the split, drawn at random; None for all. All questions
            about an image are asked, since only answers about one image can contradict each other.
        max_questions: The most implied questions to ask about an image.
        resamples: Number of resamples of the bootstrap.
        seed: Seed of the images and of the bootstrap.
    """

    num_images: Count | None = 200
    max_questions: Count = 500
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

    def implied_by(self, own: Sequence[AnsweredQuestion], budget: int | None = None) -> Implied:
        """Derives the implied questions, see the function.

        Args:
            own: The answers to the chosen questions.
            budget: The most questions to ask in all; None for any number.

        Returns:
            The implied questions, and those to ask.
        """
        return implied_by(own, self.max_questions, budget)

    def figures(
        self, records: ConsistencyRecords, split: VQASplit, oracle: Oracle | None
    ) -> dict[str, float]:
        """Computes the figures, see `consistency_figures`.

        Args:
            records: The answers.
            split: The questions of the data set.
            oracle: Judges questions about the images; None without one.

        Returns:
            Figures by name, with "consistency/" before each.
        """
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


def implied_split(split: VQASplit, implied: Implied) -> VQASplit:
    """The implied questions to ask, as a split without annotations.

    Args:
        split: The questions of the data set, which has the images.
        implied: What follows from the answers to them.

    Returns:
        M questions with the ids of `question_number`.

    Raises:
        UserError: Nothing is left to ask.
    """
    if not implied.to_ask:
        raise UserError(
            "no further question follows from the answers; the rules know English questions, and "
            "those that the data set asks itself are not asked again"
        )
    texts = [text for _, text in implied.to_ask]
    size = len(texts)
    return VQASplit(
        name=IMPLIED_SPLIT,
        question_ids=np.array([question_number(*one) for one in implied.to_ask], np.int64),
        image_ids=np.array([image for image, _ in implied.to_ask], np.int64),
        questions=texts,
        answers=[[] for _ in texts],
        main_answers=[""] * size,
        answer_types=[""] * size,
        question_types=[""] * size,
        has_answers=False,
        images=split.images,
        images_tried=split.images_tried,
    )
