"""What a measurement of consistency finds, image by image, and its files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from ivqa.consistency.implied import (
    AnsweredQuestion,
    Implied,
    ImpliedQuestion,
    agrees,
    answer_form,
    question_key,
)
from ivqa.data import DataError
from ivqa.data.validation import read_lines
from ivqa.logic import Contradiction, PictureAnswers, errors_at_least, suspicions, unclear
from ivqa.store.files import write_lines

IMPLICATIONS_FILE = "implications.jsonl"
IMAGES_FILE = "consistency.jsonl"


@dataclass(frozen=True)
class JudgedAnswer(AnsweredQuestion):
    """An answer with what the contradictions about its image say of it, see `suspicions`."""

    probability_right: float = 1.0
    suspect: bool = False


@dataclass(frozen=True)
class ImageConsistency:
    """The answers about one image: one line of consistency.jsonl.

    Args:
        answers: The answers to the questions of the data set, then those to implied questions.
        contradictions: The contradictions among them; members are positions in `answers`.
        errors_at_least: The least number of them that are wrong.
    """

    image_id: int
    answers: list[JudgedAnswer]
    contradictions: list[Contradiction]
    errors_at_least: int


@dataclass(frozen=True, eq=False)
class ConsistencyRecords:
    """All answers of a measurement.

    Args:
        images: The images, in the order in which they were asked about.
        implied: The implied questions that have an answer, each with this answer.
        covered: Whether anything follows from an answer, for each question of the data set.
        unclear: Number of answers to further yes/no questions that are neither yes nor no; they are
            left out.
        witness: Number of answers of a witness; 0 without one.
    """

    images: Sequence[ImageConsistency]
    implied: Sequence[tuple[ImpliedQuestion, AnsweredQuestion]]
    covered: Mapping[int, bool]
    unclear: int = 0
    witness: int = 0

    @classmethod
    def of(
        cls,
        own: Sequence[AnsweredQuestion],
        implied: Implied,
        given: Sequence[AnsweredQuestion],
        witness: Sequence[AnsweredQuestion] = (),
    ) -> "ConsistencyRecords":
        """Compares the answers.

        Args:
            own: The answers to N questions of the data set.
            implied: What follows from them, see `implied_by`.
            given: The answers to further questions.
            witness: The answers of another model to all of these questions; none without one.
        """
        clear, said = _clear(given), _by_image(_clear(witness))
        by_image = _by_image([*own, *clear])
        answered = {question_key(one.image_id, one.question): one for one in (*clear, *own)}
        witnesses = [[_picture(said.get(image, [])) for image in by_image]] if said else []
        judged = suspicions([_picture(answers) for answers in by_image.values()], witnesses)
        images = [
            ImageConsistency(
                image_id,
                [
                    JudgedAnswer(**vars(one), probability_right=float(right), suspect=bool(suspect))
                    for one, right, suspect in zip(answers, found.right, found.suspect, strict=True)
                ],
                list(found.contradictions),
                errors_at_least(len(answers), found.contradictions),
            )
            for (image_id, answers), found in zip(by_image.items(), judged, strict=True)
        ]
        compared = [(one, answered[one.key]) for one in implied.questions if one.key in answered]
        ids = [one.question_id for one in own]
        covered = {
            number: covered
            for number, covered in zip(ids, implied.covered, strict=True)
            if number is not None
        }
        return cls(images, compared, covered, len(given) - len(clear), len(witness))

    def write(self, run_dir: Path) -> None:
        """Writes implications.jsonl and consistency.jsonl."""
        implied = (one.record(given) for one, given in self.implied)
        write_lines(run_dir / IMPLICATIONS_FILE, implied)
        write_lines(run_dir / IMAGES_FILE, map(asdict, self.images))

    @property
    def consistent(self) -> np.ndarray:
        """Whether each implied question is answered as implied, (M,) bool."""
        return np.array(
            [agrees(given.answer, one.implication.answer) for one, given in self.implied], bool
        )


def _clear(answers: Sequence[AnsweredQuestion]) -> list[AnsweredQuestion]:
    """The answers without those to yes/no questions that are neither."""
    return [one for one in answers if not unclear(one.question, answer_form(one.answer))]


def _by_image(answers: Sequence[AnsweredQuestion]) -> dict[int, list[AnsweredQuestion]]:
    found: dict[int, list[AnsweredQuestion]] = {}
    for one in answers:
        found.setdefault(one.image_id, []).append(one)
    return found


def read_images(run_dir: Path) -> list[ImageConsistency]:
    """Reads consistency.jsonl.

    Raises:
        DataError: The file is absent or damaged.
    """
    file = run_dir / IMAGES_FILE
    if not file.is_file():
        raise DataError(f"there is no {file}; evaluate the model with callbacks=consistency")
    return list(read_lines(file, TypeAdapter(ImageConsistency), "evaluate the model again"))


def _picture(answers: Sequence[AnsweredQuestion]) -> PictureAnswers:
    confidences = [one.confidence for one in answers]
    return PictureAnswers(
        [(one.question, answer_form(one.answer)) for one in answers],
        None if None in confidences else np.array(confidences, np.float64),
    )
