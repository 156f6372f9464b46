"""augment=implications: a VQA model is trained on what follows from the annotators' answers."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ivqa.consistency.implied import answer_form
from ivqa.data import DataError, VQASplit
from ivqa.data.batches.columns import Entry
from ivqa.data.extended import questions_of
from ivqa.data.loading import Rows
from ivqa.logic import Implication, implications
from ivqa.ranges import Share


@dataclass(frozen=True)
class ImplicationAugmentation:
    """Replaces training questions by questions that follow from their answers.

    "What color is the car?" red becomes "Is there a car?" yes, as in the retraining of Ribeiro,
    Guestrin and Singh (ACL 2019). Only what follows for certain is taught.

    Args:
        probability: Probability that a question is replaced in an epoch, if something is kept that
            follows from its answer. All of that is equally probable.
        balanced: Whether as many implied questions are kept with "yes" as with "no", drawn once.
            Most that follows has the answer "yes" (on scenes 90 percent), which a model learns.
    """

    version: ClassVar[int] = 1  # also of the rules of ivqa.logic

    probability: Share = 0.5
    balanced: bool = False

    def further(self, split: VQASplit) -> tuple[VQASplit, Rows]:
        """Derives the questions that follow from the main answers of N questions.

        Returns:
            M questions about the same images with the implied answers, and the rows (M,) int64 of
            the questions that they follow from.

        Raises:
            DataError: Nothing follows from any answer.
        """
        entries, rows = list[Entry](), list[int]()
        known = cache(certain_implications)  # questions repeat: once for each distinct pair
        pairs = zip(split.image_ids.tolist(), split.questions, split.main_answers, strict=True)
        for row, (image_id, question, answer) in enumerate(pairs):
            for one in known(question, answer):
                rows.append(row)
                number = len(rows)
                entries.append(Entry(str(number), number, image_id, one.question, [one.answer]))
        kept = np.arange(len(rows))
        if self.balanced:
            answers = np.array([entry.answers for entry in entries], str).ravel()
            kept = np.random.default_rng(0).permutation(kept)
            polar = [kept[answers[kept] == answer] for answer in ("yes", "no")]
            number = min(map(len, polar))
            kept = np.sort(np.setdiff1d(kept, [*polar[0][number:], *polar[1][number:]]))
        if not len(kept):
            raise DataError(
                f"nothing follows from the answers of split '{split.name}' (augment.balanced=true: "
                "with yes and no): the rules know English questions; use augment=none"
            )
        return questions_of([entries[at] for at in kept], split.name), np.array(rows)[kept]


def certain_implications(question: str, answer: str) -> list[Implication]:
    """The implications that hold for every true answer; see `ivqa.logic.implications`."""
    return [one for one in implications(question, answer_form(answer)) if one.certain]
