"""The (image, answer) pairs whose belief sets are searched."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ivqa.data import VQASplit
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary

Pool = Literal["ground_truth", "top", "all"]


@dataclass(frozen=True)
class Pairs:
    """P (image, answer) pairs, and the data set's own questions about them.

    Args:
        images: P image ids.
        answers: P answers.
        references: The data set's questions of each (image, answer) of the chosen images.
    """

    images: list[int]
    answers: list[str]
    references: dict[tuple[int, str], list[str]]

    def __len__(self) -> int:
        return len(self.answers)


def choose_pairs(
    split: VQASplit,
    known: AnswerVocabulary,
    training_answers: Sequence[str],
    *,
    num_images: int | None,
    pool: Pool,
    num_top_answers: int,
    seed: int,
) -> Pairs:
    """Chooses images at random and, for each image, the answers to search beliefs for.

    Answers that the VQA model does not know are left out.

    Args:
        split: The split to take images from.
        known: The answers of the VQA model.
        training_answers: Main answers of the training split.
        num_images: Number of images to draw; None takes all.
        pool: Answers of each image. "ground_truth" takes the answers of the image's own questions,
            "top" the `num_top_answers` most frequent training answers, "all" every training
            answer.
        num_top_answers: Size of the pool "top".
        seed: Seed of the draw.

    Returns:
        The pairs, sorted by image id and answer.

    Raises:
        UserError: No answer of the split is among those of the VQA model.
    """
    images = np.unique(split.image_ids)
    if num_images is not None and num_images < len(images):
        images = np.sort(np.random.default_rng(seed).permutation(images)[:num_images])
    references = _references(split, set(images.tolist()))
    if pool == "ground_truth":
        keys = [key for key in references if key[1] in known]
    else:
        counts = Counter(answer for answer in training_answers if answer in known)
        number = None if pool == "all" else num_top_answers
        frequent = [answer for answer, _ in counts.most_common(number)]
        keys = [(image_id, answer) for image_id in images.tolist() for answer in frequent]
    if not keys:
        raise UserError(
            f"no answer of split '{split.name}' is among the {len(known)} answers of the VQA "
            "model; choose pool=top"
        )
    keys.sort()
    return Pairs([key[0] for key in keys], [key[1] for key in keys], references)


def _references(split: VQASplit, images: set[int]) -> dict[tuple[int, str], list[str]]:
    """The questions of each (image, answer) of the images."""
    references: dict[tuple[int, str], list[str]] = {}
    for image_id, answer, question in zip(
        split.image_ids.tolist(), split.main_answers, split.questions, strict=True
    ):
        if image_id in images:
            references.setdefault((image_id, answer), []).append(question)
    return references
