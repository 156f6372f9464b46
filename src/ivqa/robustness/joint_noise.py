"""Noise on questions and images together, which [ROB] names as future work."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from ivqa.errors import UserError
from ivqa.robustness.noise import Certified, Checkable, DisturbsImages, Noise


@dataclass(frozen=True)
class JointNoise:
    """Disturbs the question and the image at once, both at the same level.

    Args:
        question: Noise on questions.
        image: Noise on images, with the same number of levels.

    Raises:
        UserError: The two have different numbers of levels, or `image` does not disturb images.
    """

    question: Noise
    image: Noise

    def __post_init__(self) -> None:
        if not isinstance(self.image, DisturbsImages):
            raise UserError(
                f"{type(self.image).__name__} does not disturb images; choose another noise.image="
            )
        if self.question.levels != self.image.levels:
            raise UserError(
                f"joint noise needs equally many levels, not {self.question.levels} on the "
                f"question and {self.image.levels} on the image"
            )

    @property
    def levels(self) -> int:
        """The number of levels of both."""
        return self.question.levels

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks that the noise on the question can disturb every question.

        Args:
            questions: N questions.
            training: Questions that the noise may use.

        Raises:
            UserError: It cannot disturb a question.
        """
        if isinstance(self.question, Checkable):
            self.question.check(questions, training)

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Disturbs questions with the noise on the question.

        Args:
            questions: N questions.
            training: Questions that the noise may use.

        Returns:
            The N disturbed questions at each level 1..levels.
        """
        return self.question.disturbed(questions, training)

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """Disturbs an image with the noise on the image; see `ImageNoise.disturbed_image`."""
        assert isinstance(self.image, DisturbsImages)
        return self.image.disturbed_image(image, image_id, level)

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """The figures of the noise on the question.

        Args:
            questions: N questions.
            training: Questions that the noise may use.

        Returns:
            Figures by name; none where that noise has none.
        """
        if isinstance(self.question, Certified):
            return self.question.figures(questions, training)
        return {}
